"""The tokens, and the tool: a calculator that adds up the digits of the prompt."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from records import Questions
from typedbatch import objects
from typedbatch.rows import repeat

DIGITS = 8
CALL, END, PAD = DIGITS, DIGITS + 1, DIGITS + 2
VOCABULARY = DIGITS + 3


def calculate(prompt_ids: Int[Tensor, "N P"]) -> Int[Tensor, "N"]:
    """Return the token that the tool writes for each prompt: the last digit of the sum of its digits."""
    return prompt_ids.where(prompt_ids < DIGITS, 0).sum(1) % DIGITS


def draw_questions(count: int, longest: int, group: int, step: int, worker: int = 0) -> Questions:
    """Draw prompts of one to ``longest`` digits, and repeat each ``group`` times."""
    lengths = torch.randint(1, longest + 1, (count, 1))
    mask = torch.arange(longest) >= longest - lengths
    ids = torch.randint(DIGITS, (count, longest)).where(mask, PAD)
    questions = Questions(
        prompt_ids=ids,
        prompt_mask=mask,
        uid=objects(f"{step}-{worker}-{number}" for number in range(count)),
        answers=calculate(ids),
        meta={"step": step, "temperature": 1.0},
    )
    return repeat(questions, group)
