"""Sampling in turns: the policy writes until it calls the tool, reads what the tool writes, and goes on."""

from __future__ import annotations

import torch
from torch import Tensor

from model import Model
from records import Questions, Sampled
from tool import CALL, END, PAD, calculate
from typedbatch import checked, extend

MOST_TOKENS = 6


def next_logp(model: Model, ids: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return the log-probability of each token of the vocabulary behind the last token of each row."""
    places = (mask.long().cumsum(1) - 1).clamp(min=0)
    logits: Tensor = model(input_ids=ids, attention_mask=mask.long(), position_ids=places)
    return (logits[:, -1] / temperature).log_softmax(-1)


def append(columns: Tensor, column: Tensor) -> Tensor:
    """Return the columns with one more at the right."""
    return torch.cat([columns, column[:, None]], 1)


@checked(level="values")
@torch.no_grad()
def sample(model: Model, questions: Questions) -> Sampled:
    """Sample a response to each prompt. A call of the tool is followed by the output of the tool."""
    start = questions.prompt_ids.shape[1]
    ids, mask, own = questions.prompt_ids, questions.prompt_mask, torch.zeros_like(questions.prompt_mask)
    logp = torch.zeros(ids.shape)
    output = calculate(ids)
    going = torch.ones(len(questions), dtype=torch.bool)
    for _ in range(MOST_TOKENS):
        every = next_logp(model, ids, mask, questions.meta["temperature"])
        drawn = torch.multinomial(every.exp(), 1)
        writes = going & (ids[:, -1] != CALL)  # Behind a call, the tool writes and not the policy.
        token = torch.where(writes, drawn[:, 0], output).where(going, PAD)
        ids, mask, own = (
            torch.cat([old, new[:, None]], 1) for old, new in ((ids, token), (mask, going), (own, writes))
        )
        logp = torch.cat([logp, every.gather(1, drawn) * writes[:, None]], 1)
        going = going & ~(writes & (token == END))
        if not going.any():
            break
    return extend(
        questions,
        Sampled,
        response_ids=ids[:, start:],
        response_mask=mask[:, start:],
        loss_mask=own[:, start:],
        rollout_logp=logp[:, start:],
        truncated=going,
        policy_step=model.version.repeat(len(questions)),
        calls=(own & (ids == CALL)).sum(1),
    )
