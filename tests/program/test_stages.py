"""Batches that declarations make: what validate says, extend compares, and one stage that is handed over as another."""

from __future__ import annotations

import pytest

from tests.program.helpers import found

HEAD = """\
from typing import Protocol, cast
import numpy as np
from jaxtyping import Float
from typedbatch import Batch, BatchProtocol, BatchRecord, DynamicBatch, RolloutBatch, extend, validate
from typedbatch.files import load
class Steps(BatchRecord):
    rew: Float[np.ndarray, "N"]
class Ready(Steps):
    adv: Float[np.ndarray, "N"]
    mask: Float[np.ndarray, "N"] | None = None
class Wide(Steps):
    y: Float[np.ndarray, "N R"]
    z: Float[np.ndarray, "N R"]
class Open(DynamicBatch):
    obs: Float[np.ndarray, "N"]
class HasReady(BatchProtocol, Protocol):
    rew: Float[np.ndarray, "N"]
    adv: Float[np.ndarray, "N"]
    val: Float[np.ndarray, "N 1"]
class Framed(BatchRecord):
    rew: Float[np.ndarray, "T E"]
    def __len__(self) -> int:
        return self.rew.shape[1]
class HasAdv(BatchProtocol, Protocol):
    @property
    def adv(self) -> np.ndarray: ...
class Own(Steps):
    @property
    def adv(self) -> np.ndarray:
        return self.rew
def takes_own(batch: HasAdv) -> None: ...
def learn(batch: HasReady) -> None: ...
def ready_of(batch: Ready) -> None: ...
"""
HEAD += "def program(steps: Steps, given: Batch, own: Own, framed: Framed) -> None:\n"
LINE = HEAD.count("\n") + 1
WRONG = {
    "x = validate(load('a.npz'), HasReady); x.advantages": 'HasReady has no field "advantages"; did you mean "adv"?',
    "x = validate(given, HasReady); x.adv - x.val": "-: (N, 1) and (N,) make (N, N): each N against every other",
    "x = validate(given, Ready); x.returns": 'Ready has no field "returns"; it has adv, mask, rew',
    "extend(steps, Ready, adv=np.zeros(len(steps) + 1))": 'Field "adv" takes (N,), got (N+1,)',
    "extend(steps, Wide, y=np.zeros((4, 3)), z=np.zeros((4, 2)))": 'Field "z" takes (N, R), got (4, 2); R is 3 here',
    "learn(steps)": 'Steps lacks "adv", "val" of HasReady; it has rew',
    "ready_of(steps)": 'Steps lacks "adv" of Ready; it has rew',
}
RIGHT = [
    "x = validate(load('a.npz'), HasReady); x.adv - x.val[:, 0]",
    "x = validate(given, Open); x.anything",
    "x = validate(Batch(rew=np.ones(3), more=np.ones(3)), Steps); x.more",
    "x = validate(given, Ready); x.mask",
    "x = Ready(rew=np.ones(3), adv=np.ones(3), mask=None); learn(validate(x, Ready)) if hasattr(x, 'val') else None",
    "extend(steps, Ready, adv=np.zeros(len(steps)), mask=np.zeros(len(steps.rew)))",
    "extend(steps, Ready, adv=np.zeros(len(steps) + 1)[:-1])",
    "extend(steps, Wide, y=np.zeros((4, 3)), z=np.zeros((4, 3)))",
    "[steps.rew[t] for t in reversed(range(len(steps)))]",
    "if isinstance(steps, Ready): ready_of(steps)",
    "if type(steps) is Ready: ready_of(steps)",
    "if 'adv' in steps.keys(): ready_of(steps)",
    "ready_of(cast(Ready, steps))",
    "learn(validate(steps, HasReady))",
    "validate(given, Ready)['more']",
    "extend(steps, Ready, adv=np.zeros(3))['more']",
    "takes_own(own)",
    "np.zeros(len(Batch(a=load('a.npz').a, b=np.zeros(5)))) + np.zeros(3)",
    "np.zeros(len(framed)) + framed.rew[0]",
    "np.zeros(len(given) + 1)[:-1] + np.zeros(3)",
    "len(validate(load('a.npz'), RolloutBatch)) - 1",
]


@pytest.mark.parametrize("statement", WRONG)
def test_what_declarations_say_is_known(statement, tmp_path):
    text = f"{HEAD}    {statement}\n"
    assert found(tmp_path, text) == [f"a:{LINE}: {WRONG[statement]}"]


@pytest.mark.parametrize("statement", RIGHT)
def test_nothing_is_said_of_right_programs(statement, tmp_path):
    assert (
        found(
            tmp_path,
            f"{HEAD}    {statement}\n",
        )
        == []
    )


def test_a_table_of_this_package_is_no_class(tmp_path):
    assert found(tmp_path, "from typedbatch.mypy.messages import CONVERT\nprint(CONVERT['to_torch'])\n") == []
