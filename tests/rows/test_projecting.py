"""A protocol as the list of fields that a stage reads."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pytest

from typedbatch import Batch, BatchProtocol, BatchRecord, RolloutBatch
from typedbatch.errors import DeclarationError, LeafError, SchemaError
from typedbatch.rows import field_names, project


class Inner(BatchRecord):
    x: np.ndarray[Any, Any]


class HasReward(BatchProtocol, Protocol):
    @property
    def reward(self) -> np.ndarray[Any, Any]: ...
    @property
    def inner(self) -> Inner: ...


class Scored(BatchRecord):
    reward: np.ndarray[Any, Any]
    value: np.ndarray[Any, Any] | None = None


def full() -> Batch:
    return Batch(reward=np.zeros(2), ids=np.ones(2), inner={"x": [1, 2], "y": [3, 4]})


def test_only_declared_fields_are_left_and_memory_is_shared():
    batch = full()
    projected = project(batch, HasReward)
    assert list(projected.keys()) == ["reward", "inner"]
    assert projected.reward is batch.reward
    assert type(projected.inner) is Inner
    assert list(projected.inner.keys()) == ["x"]
    assert list(batch.inner.keys()) == ["x", "y"]


def test_a_record_is_of_its_class_and_has_its_defaults():
    scored = project(full(), Scored)
    assert type(scored) is Scored
    assert list(scored.keys()) == ["reward", "value"]
    assert scored.value is None


def test_the_names_are_those_of_the_declaration():
    assert field_names(HasReward) == ("reward", "inner")
    assert field_names(Scored) == ("reward", "value")
    assert set(field_names(RolloutBatch)) > {"obs", "act", "rew"}


def test_what_is_refused():
    batch = full()
    del batch.reward
    with pytest.raises(SchemaError, match="reward"):
        project(batch, HasReward)
    with pytest.raises(LeafError, match=r"project\(\) takes a Batch, got dict"):
        project({"reward": [1]}, HasReward)  # type: ignore[arg-type]  # what is wrong here
    with pytest.raises(DeclarationError, match="is not a schema"):
        project(batch, int)
    with pytest.raises(DeclarationError, match="is not a schema"):
        field_names(3)
