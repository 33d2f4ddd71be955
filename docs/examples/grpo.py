"""GRPO (arXiv:2402.03300) of a transformer that learns to reverse its prompt: ``python docs/examples/grpo.py [seed]``.

Each function says which stage of the pipeline it takes and gives, so checkers follow a batch from the prompts to the
gradient: rollouts without rewards, or advantages that were never computed, do not get as far as a run.
"""

from __future__ import annotations

import sys
from typing import Protocol, TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from typing_extensions import override

from typedbatch import checked, extend, objects
from typedbatch.posttraining import (
    PolicyLossProtocol,
    Prompts,
    Ready,
    RewardProtocol,
    Rollouts,
    Scored,
    SequenceProtocol,
)
from typedbatch.rows import balance, groups, repeat

DIGITS, LONGEST = 5, 3
PAD, END, VOCABULARY = DIGITS, DIGITS + 1, DIGITS + 2
WIDTH, HEADS, LAYERS = 32, 4, 1
PROMPTS, GROUP, STEPS = 32, 8, 40
EPOCHS, MINIBATCH, MICROBATCHES, CLIP, LEARNING_RATE, TEMPERATURE = 2, 128, 2, 0.2, 3e-3, 1.0


class Sampling(TypedDict):
    """How the rollouts of a step were sampled: the same for all rows."""

    step: int
    temperature: float


class Sampled(Ready):
    """What is learned from: all that a loss may read, and how it was sampled."""

    meta: Sampling


class LossInputs(SequenceProtocol, PolicyLossProtocol, Protocol):
    """What is read of it."""

    @property
    @override
    def meta(self) -> Sampling: ...


class Block(nn.Module):
    """Attention, and a layer for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.each = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        query, key, value = self.heads(self.norm(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        x = x + self.mix(scaled_dot_product_attention(query, key, value, attn_mask=allowed).transpose(1, 2).flatten(2))
        out: Tensor = x + self.each(x)
        return out


class Model(nn.Module):
    """A causal transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * LONGEST + 1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))

    def forward(self, ids: Int[Tensor, "N T"], mask: Bool[Tensor, "N T"]) -> Float[Tensor, "N T V"]:
        size = ids.shape[1]
        before = torch.ones(size, size, dtype=torch.bool).tril()
        allowed = (before & mask[:, None]) | torch.eye(size, dtype=torch.bool)  # padding sees itself: no row is empty
        x = self.token(ids) + self.place.weight[:size]
        for block in self.blocks:
            x = block(x, allowed[:, None])
        logits: Tensor = self.head(x)
        return logits


def logp(model: Model, batch: SequenceProtocol, temperature: float) -> Float[Tensor, "N R"]:
    """The log-probability of each token of the responses, 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]  # what is said of a token stands at the one before it
    chosen: Tensor = (before / temperature).log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]
    return chosen * batch.response_mask


def draw_prompts(step: int) -> Prompts:
    lengths = torch.randint(2, LONGEST + 1, (PROMPTS, 1))
    mask = torch.arange(LONGEST) >= LONGEST - lengths
    ids = torch.randint(DIGITS, (PROMPTS, LONGEST)).where(mask, PAD)
    uid = objects(f"{step}-{number}" for number in range(PROMPTS))
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=uid)


@checked
@torch.no_grad()
def sample(model: Model, prompts: Prompts) -> Rollouts:
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    going = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(LONGEST + 1):
        logits = model(ids, mask)[:, -1] / prompts.meta["temperature"]
        token = torch.multinomial(logits.softmax(-1), 1)[:, 0].where(going, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, going[:, None]], 1)
        going = going & (token != END)
    there = mask[:, LONGEST:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, LONGEST:], response_mask=there, loss_mask=there, truncated=going
    )


@checked
def score(rollouts: Rollouts) -> Scored:
    """The share of tokens that are as asked: the digits of the prompt from the last to the first, and the end."""
    answer = pad(rollouts.prompt_ids.flip(1), (0, 1), value=PAD)
    answer[torch.arange(len(answer)), rollouts.prompt_mask.sum(1)] = END
    right = (rollouts.response_ids == answer) & (answer != PAD)
    longest = torch.maximum((answer != PAD).sum(1), rollouts.response_mask.sum(1))
    return extend(rollouts, Scored, rewards=right.sum(1) / longest)


def group_advantages(batch: RewardProtocol) -> Float[Tensor, "N R"]:
    """How much better a response is than the others to the same prompt, at each of its tokens."""
    by_prompt = groups(batch, "uid", size=GROUP)
    advantages = (batch.rewards - by_prompt.mean(batch.rewards)) / (by_prompt.std(batch.rewards) + 1e-4)
    return advantages[:, None] * batch.loss_mask


@checked
@torch.no_grad()
def prepare(model: Model, scored: Scored) -> Sampled:
    old = logp(model, scored, scored.meta["temperature"])
    return extend(scored, Sampled, old_logp=old, advantages=group_advantages(scored))


def policy_loss(model: Model, batch: LossInputs) -> Tensor:
    """Summed over tokens."""
    ratio = (logp(model, batch, batch.meta["temperature"]) - batch.old_logp).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    return -(torch.min(ratio * batch.advantages, clipped * batch.advantages) * batch.loss_mask).sum()


def update(model: Model, optimizer: torch.optim.Optimizer, batch: Sampled) -> None:
    for _ in range(EPOCHS):
        for minibatch in batch.split(MINIBATCH, rng=torch.default_generator):
            tokens = minibatch.loss_mask.sum()
            optimizer.zero_grad()
            for rows in balance(minibatch.loss_mask.sum(1), MICROBATCHES):
                torch.autograd.backward(policy_loss(model, minibatch[rows]) / tokens)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def main(seed: int = 0) -> None:
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    for step in range(STEPS):
        prompts = repeat(draw_prompts(step), GROUP)
        prompts.meta.update(step=step, temperature=TEMPERATURE)  # goes with the batch, through all stages
        scored = score(sample(model, prompts))
        update(model, optimizer, prepare(model, scored))
        if step % 5 == 4:
            print(f"step {step + 1:2}, mean reward {scored.rewards.mean():.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
