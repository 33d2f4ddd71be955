"""GRPO with LoRA: the adapters are merged for sampling, and taken out again before training."""
# wrong: """GRPO with LoRA: the adapters are merged for sampling and never taken out again, so the base has one more copy each time."""

# PEFT's merge_adapter / unmerge_adapter around the sync of weights, as in TRL's and ms-swift's trainers with vLLM
import contextlib

import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, sample, token_logp
from tests.evidence.silent.shared.models import Decoder
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6
GROUP, CLIP, RANK = 4, 0.2, 4


class LoRALinear(nn.Module):
    """A frozen layer and a low-rank change of it."""

    def __init__(self, base, rank, scaling=2.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling, self.enabled = scaling, True

    def delta(self):
        return self.scaling * self.lora_b @ self.lora_a

    def forward(self, x):
        out = self.base(x)
        return out + self.scaling * x @ self.lora_a.T @ self.lora_b.T if self.enabled else out

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.delta()
        self.enabled = False

    @torch.no_grad()
    def unmerge(self):
        self.base.weight -= self.delta()
        self.enabled = True


def add_adapters(model, rank=RANK):
    model.requires_grad_(False)
    for name in ("qkv", "proj", "up", "down", "lm_head"):
        setattr(model, name, LoRALinear(getattr(model, name), rank))
    return model


@contextlib.contextmanager
def merged(model):
    """The weights of the base with the adapters in them, as the sampler takes them."""
    adapters = [module for module in model.modules() if isinstance(module, LoRALinear)]
    for adapter in adapters:
        adapter.merge()
    yield model
    for adapter in adapters:
        adapter.unmerge()
        # wrong: adapter.enabled = True


def score(rollouts):
    """How often the last digit of the prompt is repeated, and a bonus for an end."""
    hits = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]).sum(1)
    return extend(rollouts, Scored, rewards=hits / RESPONSE + 0.2 * ~rollouts.truncated)


class Trainer:
    def __init__(self):
        self.model = add_adapters(Decoder(VOCAB))
        self.params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.params, lr=1e-2, weight_decay=0.0)

    def rollout(self):
        with merged(self.model) as engine:
            return (score(sample(engine, repeat(draw_prompts(16), GROUP), RESPONSE)),)

    def update(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
        with torch.no_grad():
            ready = extend(scored, Ready, old_logp=token_logp(self.model, scored), advantages=advantages)
        for part in ready.split(16, rng=torch.default_generator):
            ratio = (token_logp(self.model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.params, 1.0)
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer()
    return trainer.update, trainer.rollout
