"""Prompts with responses, and a language model of a few hundred parameters."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from typedbatch import Batch, objects

GROUPS, SIZE, VOCABULARY, PROMPT, RESPONSE = 4, 4, 11, 4, 6


class Config(dict[str, Any]):
    """A configuration whose values are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


class Model(nn.Module):
    """A causal model: each position sees the mean of the tokens up to it that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        """Return the logits."""
        seen = (self.embedding(input_ids) * attention_mask[..., None]).cumsum(1)
        return Config(logits=self.head((seen / attention_mask.cumsum(1).clamp(min=1)[..., None]).tanh()))


class Learner:
    """A model with its optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, losses: Iterable[Any]) -> None:
        """Make a step by the sum of the losses of micro-batches."""
        self.optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        self.optimizer.step()


def inputs_of(batch: Any) -> tuple[Any, Any]:
    """Return the ids and the mask of prompts followed by responses."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    return ids, torch.cat([batch.prompt_mask, batch.response_mask], 1).long()


def responses(model: Any) -> Any:
    """Return responses to several prompts, some tokens of which are of tools, with rewards and advantages."""
    generator = torch.Generator().manual_seed(0)
    rows, shape = GROUPS * SIZE, (GROUPS * SIZE, RESPONSE)
    prompts = torch.randint(1, VOCABULARY, (GROUPS, PROMPT), generator=generator).repeat_interleave(SIZE, 0)
    left = torch.randint(1, PROMPT + 1, (GROUPS, 1), generator=generator).repeat_interleave(SIZE, 0)
    asked = torch.arange(PROMPT) >= PROMPT - left
    there = torch.arange(RESPONSE) < torch.randint(3, RESPONSE + 1, (rows, 1), generator=generator)
    ids = torch.randint(1, VOCABULARY, shape, generator=generator)
    of_tools = (torch.rand(shape, generator=generator) < 0.2) & (torch.arange(RESPONSE) > 0)
    rewards = torch.randn(GROUPS, SIZE, generator=generator)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    batch = Batch(
        prompt_ids=torch.where(asked, prompts, 0), prompt_mask=asked, response_ids=torch.where(there, ids, 0),
        response_mask=there, loss_mask=there & ~of_tools, rewards=rewards.flatten(), advantages=advantages.flatten(),
        uid=objects([f"prompt {row // SIZE}" for row in range(rows)]),
    )  # fmt: skip
    with torch.no_grad():
        logp = model(*inputs_of(batch)).logits[:, -RESPONSE - 1 : -1].log_softmax(-1)
    return Batch(batch, old_logp=torch.where(there, logp.gather(-1, batch.response_ids[..., None])[..., 0], 0.0))


def pairs(batch: Any) -> Any:
    """Return pairs of the responses of even and odd rows, with the sums of log-probabilities of a reference."""
    sums = batch.old_logp.sum(1) + torch.linspace(-0.3, 0.3, len(batch))
    made = Batch(prompt_ids=batch.prompt_ids[::2], prompt_mask=batch.prompt_mask[::2])
    for first, side in enumerate(("chosen", "rejected")):
        made[f"{side}_ids"], made[f"{side}_mask"] = batch.response_ids[first::2], batch.response_mask[first::2]
        made[f"ref_{side}_logp"] = sums[first::2]
    return made
