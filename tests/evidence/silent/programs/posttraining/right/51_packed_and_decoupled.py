"""Asynchronous GRPO with a decoupled objective (AReaL) on packed tokens: weights for stale data, and a clipped ratio of its own."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from typedbatch import BatchRecord, cat, extend

EOS, VOCAB = 1, 12
PROMPTS, GROUP, BUDGET = 5, 6, 8
CLIP, WEIGHT_CAP, EPOCHS, AHEAD = 0.2, 5.0, 3, 2


class Packed(BatchRecord):
    """Sequences end to end, a row for each token. ``[t]`` of each field belongs to the token ``input_ids[t]``."""

    input_ids: Int[Tensor, "N"]
    sequence: Int[Tensor, "N"]
    position_ids: Int[Tensor, "N"]
    loss_mask: Bool[Tensor, "N"]
    inference_logprobs: Float[Tensor, "N"]
    rewards: Float[Tensor, "N"]
    advantages: Float[Tensor, "N"]


class Trainable(Packed):
    proximal_logprobs: Float[Tensor, "N"]
    """Log-probabilities under the trainer's weights before the first step on these data."""


class Policy(nn.Module):
    def __init__(self, width: int = 24, longest: int = 16) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, width), nn.Embedding(longest, width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids: Tensor, sequence: Tensor, positions: Tensor) -> Tensor:
        """Logits of tokens (T,) or of rows of them (N, T). A token sees those before it in its own sequence."""
        size = ids.shape[-1]
        same = sequence[..., :, None] == sequence[..., None, :]
        x = self.token(ids) + self.place(positions)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + self.mix(F.scaled_dot_product_attention(q, k, v, attn_mask=same & torch.ones(size, size).tril().bool()))
        logits: Tensor = self.head(x + self.mlp(x))
        return logits


def token_logprobs(policy: Policy, batch: Packed) -> Float[Tensor, "N"]:
    """A token's log-probability comes from the logits one before it; the first of a sequence has none."""
    logits = policy(batch.input_ids, batch.sequence, batch.position_ids)[:-1]
    logprobs = logits.log_softmax(-1).gather(-1, batch.input_ids[1:, None]).squeeze(-1)
    return F.pad(logprobs, (1, 0)) * (batch.position_ids > 0)


def reward_of(prompt: list[int], answer: list[int]) -> float:
    """The share of tokens that are at least as large as the one before, and something for an end."""
    rising = sum(after >= before for before, after in zip([prompt[-1], *answer], answer))
    return rising / len(answer) + 0.3 * (answer[-1] == EOS)


def group_advantages(rewards: Float[Tensor, "G"]) -> Float[Tensor, "G"]:
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


@torch.no_grad()
def sample_group(policy: Policy, prompt: list[int], first: int) -> Packed:
    """Sample a group of answers to one prompt, whose sequences have the numbers from ``first`` on."""
    ids, logprobs = torch.tensor([prompt] * GROUP), torch.zeros(GROUP, len(prompt))
    for _ in range(BUDGET):
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        every = policy(ids, torch.ones_like(ids), positions)[:, -1].log_softmax(-1)
        token = torch.multinomial(every.exp(), 1)
        ids, logprobs = torch.cat([ids, token], 1), torch.cat([logprobs, every.gather(1, token)], 1)
    answers = [row[: row.index(EOS) + 1] if EOS in row else row for row in ids[:, len(prompt) :].tolist()]
    rewards = torch.tensor([reward_of(prompt, answer) for answer in answers])
    parts = []
    for i, (answer, advantage) in enumerate(zip(answers, group_advantages(rewards), strict=True)):
        size = len(prompt) + len(answer)
        parts.append(
            Packed(
                input_ids=ids[i, :size], sequence=torch.full((size,), first + i), position_ids=torch.arange(size),
                loss_mask=torch.arange(size) >= len(prompt), inference_logprobs=logprobs[i, :size],
                rewards=rewards[i].expand(size), advantages=advantage.expand(size),
            )
        )  # fmt: skip
    return cat(parts)


def sample(policy: Policy) -> Packed:
    prompts = [torch.randint(2, VOCAB, (int(size),)).tolist() for size in torch.randint(1, 6, (PROMPTS,))]
    return cat([sample_group(policy, prompt, GROUP * i) for i, prompt in enumerate(prompts)])


class AsyncTrainer:
    """The sampler works ahead, so that data are ``AHEAD`` steps old when they are learned from."""

    def __init__(self) -> None:
        self.policy = Policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), 4e-3)
        older = copy.deepcopy(self.policy)
        with torch.no_grad():  # the queue has been filled by the weights of some steps ago
            for weights in older.parameters():
                weights.add_(torch.randn_like(weights), alpha=0.05)
        self.queue = deque(sample(older) for _ in range(AHEAD))

    @torch.no_grad()
    def next_batch(self) -> Trainable:
        self.queue.append(sample(self.policy))
        batch = self.queue.popleft()
        return extend(batch, Trainable, proximal_logprobs=token_logprobs(self.policy, batch))

    def loss(self, batch: Trainable) -> Tensor:
        weight = (batch.proximal_logprobs - batch.inference_logprobs).exp()
        ratio = (token_logprobs(self.policy, batch) - batch.proximal_logprobs).exp()
        gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
        counts = batch.loss_mask & (weight <= WEIGHT_CAP)
        return -(weight * gain * counts).sum() / batch.loss_mask.sum()

    def train_step(self, batch: Trainable) -> dict[str, float]:
        for _ in range(EPOCHS):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
        return {"loss": loss.item(), "reward": batch.rewards[batch.position_ids == 0].mean().item()}


def setup(seed: int = 0) -> tuple[Callable[..., dict[str, float]], Callable[[], tuple[Any, ...]]]:
    torch.manual_seed(seed)
    trainer = AsyncTrainer()
    return trainer.train_step, lambda: (trainer.next_batch(),)
