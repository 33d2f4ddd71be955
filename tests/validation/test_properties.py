"""Fields that a property computes, and the meta that a record declares."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Protocol, Required, TypedDict

import numpy as np
import pytest
from annotated_types import Ge
from jaxtyping import Float32
from numpy.typing import NDArray

from tests.validation.helpers import Array, fields, refused
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    cat,
    conforms,
    extend,
    schema_of,
    validate,
)
from typedbatch._core.kinds import new_tree
from typedbatch.errors import DeclarationError
from typedbatch.json_schema import json_schema
from typedbatch.testing import example


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


class Limits(TypedDict, total=False):
    tokens: Required[int]
    stop: list[str] | None


class SamplingMeta(TypedDict):
    temperature: float
    step: NotRequired[int]
    mode: NotRequired[Literal["greedy", "sampled"]]
    limits: NotRequired[Limits]
    scale: NotRequired[NDArray[np.floating[Any]]]


class Rollouts(BatchRecord):
    ids: NDArray[np.int64]
    meta: SamplingMeta


class HasTemperature(BatchProtocol, Protocol):
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    def meta(self) -> SamplingMeta: ...


class Nesting(BatchRecord):
    inner: Rollouts


def test_a_record_takes_its_meta_as_a_keyword_and_keeps_it():
    rollouts = Rollouts(ids=np.arange(3), meta={"temperature": 0.7})
    assert type(rollouts[:2]) is Rollouts
    assert cat([rollouts[:2], rollouts[2:]]) == rollouts
    assert rollouts[0].meta == {"temperature": 0.7}
    assert validate(rollouts, HasTemperature) is rollouts
    assert [field.name for field in schema_of(Rollouts)] == ["ids"]
    assert list(json_schema(Rollouts)["properties"]) == ["ids"]
    with pytest.raises(TypeError, match=r"Rollouts\(\) is missing 'meta'; it was given ids"):
        Rollouts(ids=np.arange(3))  # type: ignore[call-arg]  # which checkers say too


def test_examples_have_what_must_be_there():
    assert example(Rollouts).meta == {"temperature": 1}
    assert example(Nesting).inner.meta == {"temperature": 1}
    assert example(Rollouts, fields={"meta": {"temperature": 0.5}}).meta == {"temperature": 0.5}


def test_extend_gives_a_batch_its_meta():
    made = extend(Batch(ids=np.arange(2)), Rollouts, meta={"temperature": 1})
    assert made.meta == {"temperature": 1}
    with pytest.raises(SchemaError, match=r"meta\.temperature"):
        extend(Batch(ids=np.arange(2)), Rollouts)


@pytest.mark.parametrize(
    "meta",
    [
        {"temperature": 1},
        {"temperature": 0.5, "step": 3, "mode": "greedy", "other": object()},
        {"temperature": 0.5, "limits": {"tokens": 3, "stop": None}},
        {"temperature": 0.5, "limits": {"tokens": 3, "stop": ["a"]}, "scale": np.ones(2)},
    ],
)
def test_meta_that_fits(meta):
    assert conforms(Batch(ids=np.arange(2), meta=meta), Rollouts)
    assert validate(Batch(ids=np.arange(2), meta=meta), HasTemperature).meta == meta


@pytest.mark.parametrize(
    ("meta", "path", "code", "got"),
    [
        ({}, "meta.temperature", "TB101 missing-field", "missing"),
        ({"temperature": "hot"}, "meta.temperature", "TB202 wrong-kind", "str"),
        ({"temperature": 1.0, "step": 1.5}, "meta.step", "TB202 wrong-kind", "float"),
        ({"temperature": 1.0, "mode": "beam"}, "meta.mode", "TB203 wrong-choice", "str"),
        ({"temperature": 1.0, "limits": {}}, "meta.limits.tokens", "TB101 missing-field", "missing"),
        ({"temperature": 1.0, "limits": {"tokens": 1, "stop": [1]}}, "meta.limits.stop", "TB202 wrong-kind", "list"),
        ({"temperature": 1.0, "scale": np.ones(2, int)}, "meta.scale", "TB202 wrong-kind", "i64[2]"),
    ],
)
def test_meta_that_does_not_fit_is_named(meta, path, code, got):
    batch = Batch(ids=np.arange(2), meta=meta)
    assert not conforms(batch, Rollouts)
    with pytest.raises(SchemaError) as caught:
        validate(batch, Rollouts)
    (problem,) = caught.value.problems
    assert (problem.path, problem.code, problem.got) == (path, code, got)


def test_the_meta_of_a_nested_record():
    batch = Batch(inner=Batch(ids=np.arange(2)))
    with pytest.raises(SchemaError) as caught:
        validate(batch, Nesting)
    assert [problem.path for problem in caught.value.problems] == ["inner.meta.temperature"]
    batch.inner.meta["temperature"] = 1.0
    assert conforms(batch, Nesting)


def test_meta_that_is_no_typed_dict_is_refused_when_the_class_is_made():
    with pytest.raises(
        DeclarationError, match=r"meta must be declared as a TypedDict or as Mapping\[str, Any\], not as int"
    ):

        class Wrong(BatchRecord):
            meta: int

    with pytest.raises(DeclarationError, match="has a default"):

        class Default(BatchRecord):
            meta: SamplingMeta = {"temperature": 1.0}  # noqa: RUF012  # which is the mistake
