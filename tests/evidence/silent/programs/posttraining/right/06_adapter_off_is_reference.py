"""GRPO of adapters: the base is frozen, the reference is the model with its adapters off, and k2 KL is in the loss."""

from contextlib import contextmanager

import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, token_logp
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, RANK, KL, CLIP = 6, 4, 0.01, 0.2


class Adapted(nn.Module):
    """A frozen layer and a low-rank change to it, 0 at first."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.on = layer.requires_grad_(False), True
        self.down = nn.Linear(layer.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + 2.0 * self.up(self.down(x)) if self.on else self.layer(x)


def with_adapters(model):
    """Embeddings, norms and the base stay as they are."""
    model.requires_grad_(False)
    for layers in (model.qkv, model.mix):
        for i, layer in enumerate(layers):
            layers[i] = Adapted(layer)
    for mlp in model.mlp:
        mlp[1], mlp[3] = Adapted(mlp[1]), Adapted(mlp[3])
    model.lm_head = Adapted(model.lm_head)
    return model


@contextmanager
def adapters_off(model):
    adapters = [module for module in model.modules() if isinstance(module, Adapted)]
    for adapter in adapters:
        adapter.on = False
    try:
        yield model
    finally:
        for adapter in adapters:
            adapter.on = True


@torch.no_grad()
def prepare(model, scored):
    by_prompt = groups(scored, "uid", size=GROUP)
    advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
    with adapters_off(model) as reference:
        ref_logp = token_logp(reference, scored)
    old_logp = token_logp(model, scored)
    return extend(scored, Ready, old_logp=old_logp, ref_logp=ref_logp, advantages=advantages[:, None] * scored.loss_mask)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = with_adapters(GPT(VOCAB))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.0)

    def draw():
        return (score(generate(model, repeat(draw_prompts(12), GROUP))),)

    def update(scored):
        for part in prepare(model, scored).split(36, rng=torch.default_generator):
            logp = token_logp(model, part)
            ratio = (logp - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            k2 = 0.5 * (logp - part.ref_logp).square()
            loss = (KL * k2 - gain)[part.loss_mask].mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
