"""Prompts with responses, and a language model of a few hundred parameters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from typedbatch import Batch, objects

GROUPS, SIZE, VOCABULARY, PROMPT, RESPONSE = 4, 4, 11, 4, 6


class Model(nn.Module):
    """A causal model: each position sees the mean of the tokens up to it that are not padding."""

    config = SimpleNamespace(model_type="tiny", is_encoder_decoder=False, _attn_implementation="eager")

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, input_ids: Any, attention_mask: Any = None, **_: Any) -> Any:
        """Return an object with the logits."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        seen = (self.embedding(input_ids) * mask[..., None]).cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return SimpleNamespace(logits=self.head(seen.tanh()))


def inputs_of(batch: Any) -> tuple[Any, Any, Any]:
    """Return the ids, mask and positions of prompts followed by responses."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1).long()
    return ids, mask, (mask.cumsum(1) - 1).clamp(min=0)


def logp_of(model: Any, batch: Any) -> Any:
    """Return the log-probability of each token of the responses."""
    ids, mask, _ = inputs_of(batch)
    logp = model(ids, mask).logits[:, -RESPONSE - 1 : -1].log_softmax(-1)
    return logp.gather(-1, batch.response_ids[..., None])[..., 0]


def responses(model: Any) -> Any:
    """Return responses to several prompts, some tokens of which are of tools, with rewards and advantages."""
    generator = torch.Generator().manual_seed(0)
    rows = GROUPS * SIZE
    prompts = torch.randint(1, VOCABULARY, (GROUPS, PROMPT), generator=generator).repeat_interleave(SIZE, 0)
    lengths = torch.randint(3, RESPONSE + 1, (rows, 1), generator=generator)
    there, at = torch.arange(RESPONSE) < lengths, torch.arange(PROMPT)
    left = torch.randint(1, PROMPT + 1, (GROUPS, 1), generator=generator).repeat_interleave(SIZE, 0)
    ids = torch.randint(1, VOCABULARY, (rows, RESPONSE), generator=generator)
    tools = (torch.rand(rows, RESPONSE, generator=generator) < 0.2) & (torch.arange(RESPONSE) > 0)
    batch = Batch(
        prompt_ids=torch.where(at >= PROMPT - left, prompts, 0), prompt_mask=at >= PROMPT - left,
        response_ids=torch.where(there, ids, 0), response_mask=there, loss_mask=there & ~tools,
        rewards=torch.randn(rows, generator=generator), uid=objects([f"prompt {row // SIZE}" for row in range(rows)]),
    )  # fmt: skip
    with torch.no_grad():
        logp = torch.where(there, logp_of(model, batch), 0.0)
        reference = torch.where(there, logp + 0.1 * torch.randn(rows, RESPONSE, generator=generator), 0.0)
    return Batch(batch, old_logp=logp, ref_logp=reference)


class Config(dict[str, Any]):
    """A configuration whose values are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]
