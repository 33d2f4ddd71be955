"""typeguard and beartype: what they check of parameters annotated with protocols and records."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation, BeartypeDecorHintPep3119Exception
from torch import Tensor
from typeguard import TypeCheckError, check_type, typechecked

from typedbatch import Batch, BatchProtocol, BatchRecord, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol
from typedbatch.bridges.beartype import checking_batches
from typedbatch.errors import DeclarationError

FLAGS = np.zeros(2, bool)


class Goal(BatchRecord):
    goal: np.ndarray[Any, Any]


class WithGoal(BatchProtocol):
    goal: np.ndarray[Any, Any]


def rollout(**fields: Any) -> RolloutBatch:
    made = {"obs": np.zeros((2, 3)), "obs_next": np.ones((2, 3)), "act": np.arange(2), "rew": np.ones(2)}
    return RolloutBatch(**{**made, "terminated": FLAGS, "truncated": FLAGS, "info": {}, **fields})


@typechecked
def guarded(batch: RolloutBatchProtocol, more: list[Goal] | None = None) -> RolloutBatchProtocol:
    return batch


@pytest.mark.parametrize(
    "order", ["typedbatch.bridges.typeguard, typeguard", "typeguard, typedbatch.bridges.typeguard"]
)
def test_typeguard_finds_its_plugin_whichever_is_imported_first(order: str):
    code = f"import {order}; print(typedbatch.bridges.typeguard.lookup in typeguard.checker_lookup_functions)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_typeguard_hands_on_what_fits():
    batch = Batch(rollout())
    assert guarded(batch, [Goal(goal=np.zeros(2))]) is batch


def test_typeguard_shows_the_whole_report():
    with pytest.raises(
        TypeCheckError, match=r'argument "batch" .*\n(.*\n)*.*batch\.rew +N is 3 here, but 2 in obs'
    ) as caught:
        guarded(rollout(rew=np.zeros(3)))
    assert "TB302 dimension-conflict" in str(caught.value)
    with pytest.raises(TypeCheckError, match="TB101 missing-field"):
        guarded(Batch(obs=np.zeros(2)))  # type: ignore[arg-type]
    with pytest.raises(TypeCheckError, match="TB102 not-a-batch"):
        guarded({"obs": np.zeros(2)})  # type: ignore[arg-type]


def test_typeguard_inside_unions_and_lists():
    """Of a list it looks at the first item, unless it is told otherwise."""
    with pytest.raises(TypeCheckError, match="goal"):
        guarded(rollout(), [Goal(goal="x")])  # type: ignore[arg-type]


def test_typeguard_and_parameters_of_protocols():
    batch = Batch(obs=torch.zeros(2), info={})
    assert check_type(batch, ObsBatchProtocol[Tensor]) is batch
    with pytest.raises(TypeCheckError, match=r"ObsBatchProtocol\[Tensor\]"):
        check_type(batch.to_numpy(), ObsBatchProtocol[Tensor])
    with pytest.raises(TypeCheckError, match="TB202 wrong-kind"):
        check_type(batch, ObsBatchProtocol)


def test_typeguard_takes_records_by_their_class():
    with pytest.raises(TypeCheckError, match=r"has the fields of a Goal, but is not one; convert it by validate\(\)"):
        check_type(Batch(goal=np.zeros(2)), Goal)


CONF = checking_batches(Goal, WithGoal, RolloutBatchProtocol[Tensor])


@beartype(conf=CONF)
def borne(batch: RolloutBatchProtocol, more: list[Goal] | None = None) -> int:
    return len(batch)


@beartype(conf=CONF)
def borne_of_tensors(batch: RolloutBatchProtocol[Tensor]) -> int:
    return len(batch)


@beartype(conf=CONF)
def borne_with_goal(batch: WithGoal) -> int:
    return len(batch)


def test_beartype_lets_pass_what_fits():
    assert borne(rollout()) == borne(Batch(rollout()), [Goal(goal=np.zeros(2))]) == 2  # type: ignore[arg-type]
    assert borne_of_tensors(rollout().to_torch()) == 2
    assert borne_with_goal(Goal(goal=np.zeros(2))) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: borne(rollout(rew=np.zeros(3))), lambda: borne(Batch(obs=np.zeros(2))),
        lambda: borne(rollout(), [Batch(goal=np.zeros(2))]), lambda: borne(rollout().to_torch()),
        lambda: borne_of_tensors(rollout()), lambda: borne_with_goal(rollout()),
    ],
    ids=["other rows", "fields missing", "no record", "tensors", "arrays", "no goal"],
)  # fmt: skip
def test_beartype_refuses_what_does_not(call):
    with pytest.raises(BeartypeCallHintViolation):
        call()


def test_beartype_without_the_configuration():
    """Check what the page says: protocols are refused as annotations, and records are checked by their class."""
    with pytest.raises(BeartypeDecorHintPep3119Exception):

        @beartype
        def plain(batch: RolloutBatchProtocol) -> None: ...

    @beartype
    def shallow(batch: RolloutBatch) -> None: ...

    shallow(rollout(rew=np.zeros(3)))


def test_beartype_knows_protocols_that_nothing_else_has_loaded():
    code = (
        "from typedbatch.bridges.beartype import checking_batches; conf = checking_batches()\n"
        "from beartype import beartype; from typedbatch import Batch, ObsBatchProtocol\n"
        "@beartype(conf=conf)\n"
        "def plain(batch: ObsBatchProtocol) -> int: return len(batch)\n"
        "print(plain(Batch(obs=[1.0, 2.0], info={})))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_beartype_of_something_else():
    with pytest.raises(DeclarationError, match=r"checking_batches\(\) takes protocols and records, got <class 'int'>"):
        checking_batches(int)
