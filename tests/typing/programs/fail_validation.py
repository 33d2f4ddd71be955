"""Mistakes around shapes, rules, levels and boundaries that checkers see."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import ActBatch, Batch, BatchRecord, Finite, SeparateSizes, checked, checking, rule, validate

Array = NDArray[Any]


class Step(BatchRecord):
    act: Tensor
    rew: Annotated[NDArray[np.float64], Finite, Ge(0)]

    @rule("there is a reward")
    def some(self) -> bool:
        return bool(self.reww.any())  # E: misspelt-in-a-rule: reww


@checked
def learn(batch: Step, scale: float = 1.0) -> float:
    return scale


@checked(level="values")
def carefully(batch: ActBatch) -> list[ActBatch]:
    return [batch]


@checked
@dataclass
class Trainer:
    batch: ActBatch


def wrong(step: Step, act: ActBatch, open_: Batch) -> None:
    learn(open_)  # E: open-into-checked
    learn(step, scal=2.0)  # E: keyword-of-checked: scal
    learn(step).missing  # E: result-of-checked: missing
    carefully(step)  # E: other-into-checked
    carefully(act)[0].rew  # E: result-of-checked-with-level: rew
    Trainer(step)  # E: other-into-checked-class
    Trainer(act).batc  # E: field-of-checked-class: batc
    validate(open_, Step, level="vlaues")  # E: misspelt-level
    with checking("all"):  # E: misspelt-level
        pass
    validate(open_, Step).obs  # E: undeclared: obs


@checked(level="deep")  # E: misspelt-level
def never(batch: ActBatch) -> None: ...


class Critic(BatchRecord):
    values: Tensor


Critic(values=np.zeros(2))  # E: wrong-kind-of-values
Critic().values  # E: no-values
number: int = Critic(values=torch.zeros(2)).values  # E: values-are-a-tensor


@checked
def of_own(batch: Annotated[Critic, SeparateSizes]) -> None:
    batch.valuess  # E: misspelt-under-annotated: valuess


of_own(Batch())  # E: not-a-critic


class Bare(BatchRecord):
    act: Array

    words: bool = bool(rule(len))  # E: rule-without-words
