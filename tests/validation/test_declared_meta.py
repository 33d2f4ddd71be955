"""Records and protocols that say what is in the meta."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Protocol, Required, TypedDict

import numpy as np
import pytest
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, BatchRecord, SchemaError, cat, conforms, extend, schema_of, validate
from typedbatch.errors import DeclarationError
from typedbatch.json_schema import json_schema
from typedbatch.testing import example


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
