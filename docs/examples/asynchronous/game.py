"""A game of several turns: find a hidden number by guesses of two digits, each answered by a hint."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

BASE, TURNS = 3, 3
NUMBERS = BASE * BASE
HIGHER, LOWER, RIGHT, NO_NUMBER, START, PAD = range(BASE, BASE + 6)
VOCABULARY = BASE + 6
LONGEST = 1 + 3 * TURNS
"""Number of tokens of a whole game: the start, and two digits and a hint in each turn."""


def hint(first: Int[Tensor, "N"], second: Int[Tensor, "N"], hidden: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    """Return the token that the game answers to each guess."""
    guess = first * BASE + second
    answer = torch.where(guess < hidden, HIGHER, torch.where(guess > hidden, LOWER, RIGHT))
    return torch.where((first < BASE) & (second < BASE), answer, NO_NUMBER)


def reward(answer: Int[Tensor, "N"]) -> Tensor:
    """Return the reward of a turn by the answer to it: 1 for the number, and less than 0 for all else."""
    return torch.where(answer == RIGHT, 1.0, torch.where(answer == NO_NUMBER, -0.3, -0.1))
