"""GRPO with LoRA: the adapters are merged for sampling, and taken out again before training."""
# wrong: """GRPO with LoRA: the adapters are merged for sampling and never taken out again, so the base has one more copy each time."""

# PEFT's merge_adapter / unmerge_adapter around the sync of weights, as in TRL's and ms-swift's trainers with vLLM
import contextlib
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, CLIP, RANK = 4, 0.2, 4


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(VOCAB, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        place = torch.arange(size)
        gap = place[:, None] - place
        seen = (gap >= 0) & mask[:, None] | torch.eye(size, dtype=torch.bool)
        bias = self.distance(gap.clamp(0, 31)).permute(2, 0, 1).masked_fill(~seen[:, None], -1e9)
        x = self.embed(ids)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.up(self.norms[1](x))))
        return self.norms[2](x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


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


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """How often the last digit of the prompt is repeated, and a bonus for an end."""
    hits = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]).sum(1)
    return extend(rollouts, Scored, rewards=hits / RESPONSE + 0.2 * ~rollouts.truncated)


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class Trainer:
    def __init__(self):
        self.model = add_adapters(Decoder())
        self.params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.params, lr=1e-2, weight_decay=0.0)

    def rollout(self):
        with merged(self.model) as engine:
            return (score(generate(engine, repeat(draw_prompts(16), GROUP))),)

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
