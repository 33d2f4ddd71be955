"""Settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    vocab: int = 16
    prompt_length: int = 3
    response_length: int = 5
    batch_size: int = 8
    minibatch_size: int = 4
    kl_coef: float = 0.05
    gamma: float = 1.0
    lam: float = 0.95
    clip: float = 0.2
    whiten: bool = True
    steps: int = 3
