"""Settings and modes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Extract(Enum):
    AWR = auto()
    CLONE = auto()


@dataclass(frozen=True)
class Settings:
    expectile: float = 0.7
    temperature: float = 2.0
    gamma: float = 0.95
    extract: Extract = Extract.AWR
    reweight: bool = False
    steps: int = 12
    batch_size: int = 24
