"""A batch whose class computes fields: what is judged is what a reader gets."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import numpy as np
import pytest
from annotated_types import Ge
from jaxtyping import Float32

from tests.validation.helpers import Array, fields, refused
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    conforms,
    validate,
)
from typedbatch._core.kinds import new_tree


class Seen(BatchProtocol, Protocol):
    obs: Float32[np.ndarray, "N 4"]
    rew: Array


class SeenRecord(BatchRecord):
    obs: Float32[np.ndarray, "N 4"]
    rew: Array


class Normalised(Batch):
    """Its observations are those that are stored, and are not what a protocol asks for."""

    @property
    def obs(self) -> Any:
        return self["raw"] / 255.0


class Summed(Batch):
    """Its rewards are nowhere stored."""

    @property
    def rew(self) -> Any:
        return self["parts"].sum(1)


class Unsaid(Batch):
    @property
    def rew(self) -> Any:
        raise FileNotFoundError("rewards.npy")


def observations(rows: int = 3) -> np.ndarray:
    return np.zeros((rows, 4), np.float32)


def stored(cls: type[Batch], **values: Any) -> Any:
    """A batch with just these values, properties of its class or not."""
    return new_tree(cls, values)


def test_a_stored_field_behind_a_property_is_not_judged():
    batch = stored(Normalised, obs=observations(), raw=np.zeros((3, 4)), rew=np.zeros(3))
    assert batch.obs.dtype == np.float64
    assert not conforms(batch, Seen)
    (problem,) = refused(batch, Seen).problems
    assert (problem.path, problem.code) == ("obs", "TB201 wrong-dtype")


def test_a_property_stands_for_a_field_that_is_not_stored():
    batch = stored(Summed, obs=observations(), parts=np.zeros((3, 2)))
    assert conforms(batch, Seen)
    assert validate(batch, Seen) is batch
    assert batch.rew.shape == (3,)
    shorter = stored(Summed, obs=observations(), parts=np.zeros((2, 2)))
    assert [problem.path for problem in refused(shorter, Seen).problems] == ["obs", "rew"]


def test_a_property_that_raises_is_named():
    batch = stored(Unsaid, obs=observations(), rew=np.zeros(3))
    assert not conforms(batch, Seen)
    (problem,) = refused(batch, Seen).problems
    assert (problem.path, problem.code) == ("rew", "TB105 unreadable-field")
    assert problem.got == "raises FileNotFoundError when it is looked at"
    assert problem.hint == "rew is a property of Unsaid"


def test_a_record_is_a_view_of_what_is_stored_and_is_judged_so():
    behind = stored(Normalised, obs=observations(), raw=np.zeros((3, 4)), rew=np.zeros(3))
    view = validate(behind, SeenRecord)
    assert view.obs is behind["obs"]
    assert not conforms(behind, SeenRecord)  # it is not the view that is read then, but the batch
    (problem,) = refused(stored(Summed, obs=observations(), parts=np.zeros((3, 2))), SeenRecord).problems
    assert (problem.path, problem.code) == ("rew", "TB101 missing-field")


def test_a_record_may_compute_a_field_of_the_record_before_it():
    class Clipped(SeenRecord):
        @property
        def rew(self) -> Any:  # type: ignore[override]
            return self["rew"].clip(-1, 1)[:, None][:2]

    batch = stored(Clipped, obs=observations(), rew=np.zeros(3))
    assert [problem.path for problem in refused(batch, Clipped).problems] == ["obs", "rew"]
    assert [problem.path for problem in refused(batch, Seen).problems] == ["obs", "rew"]


class Outer(BatchProtocol, Protocol):
    inner: Seen
    either: Seen | SeenRecord
    many: dict[str, Seen]


@pytest.mark.parametrize("where", ["inner", "either", "many"])
@pytest.mark.parametrize("cls", [Normalised, Unsaid])
def test_nested_batches_are_read_likewise(where: str, cls: type[Batch]):
    right = stored(Batch, obs=observations(), rew=np.zeros(3))
    batch = stored(Batch, inner=right, either=right, many=stored(Batch, a=right))
    assert conforms(batch, Outer)
    wrong = stored(cls, obs=observations(), rew=np.zeros(3), raw=np.zeros((3, 4)))
    batch.__dict__[where] = wrong if where != "many" else stored(Batch, a=wrong)
    assert not conforms(batch, Outer)
    (problem,) = refused(batch, Outer).problems
    assert problem.path.startswith(where)


def test_a_class_that_inherits_from_a_protocol_hides_its_own_fields():
    class Both(Batch, RolloutBatchProtocol):  # type: ignore[misc]
        pass

    batch = stored(Both, **fields())
    assert batch.obs is None  # the protocol's own property comes first
    assert not conforms(batch, RolloutBatchProtocol)


def test_what_cannot_be_set_leaves_stored_fields_alone():
    class Named(Batch):
        rew = 5

        def obs(self) -> str:
            return "a method"

    batch = stored(Named, obs=observations(), rew=np.zeros(3))
    assert conforms(batch, Seen)
    assert batch.obs is batch["obs"]


def test_rules_read_what_a_reader_gets():
    class Positive(BatchProtocol, Protocol):
        rew: Annotated[Array, Ge(0)]

    batch = stored(Summed, parts=np.full((3, 2), -1.0), rew=np.zeros(3))
    problems = refused_by_values(batch, Positive)
    assert problems == [("rew", "TB401 wrong-values")]


def refused_by_values(batch: Batch, schema: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema, level="values")
    return [(problem.path, problem.code) for problem in caught.value.problems]


def test_batches_without_properties_are_read_as_they_are():
    assert conforms(Batch(fields()), RolloutBatchProtocol)
    record = validate(Batch(fields()), RolloutBatch)
    assert conforms(record, RolloutBatchProtocol)
