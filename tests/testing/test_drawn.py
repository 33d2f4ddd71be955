"""Batches drawn by hypothesis from declarations."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from annotated_types import Ge, Le
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from jaxtyping import Float16, Float32, Int

from tests.testing.test_examples import SCHEMAS, Pixels
from typedbatch import BatchRecord, RolloutBatch, RolloutBatchProtocol, validate
from typedbatch.errors import DeclarationError, SettingError
from typedbatch.rules import Finite, Sorted, Unique, rule
from typedbatch.testing import batches, example


class Ruled(BatchRecord):
    act: Annotated[Int[np.ndarray, "N"], Ge(2), Le(5)]
    adv: Annotated[Float32[np.ndarray, "N"], Finite, Ge(-1), Le(1)]
    t: Annotated[Int[np.ndarray, "N"], Sorted]
    ids: Annotated[Int[np.ndarray, "N"], Unique]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_every_schema_accepts_what_is_drawn(schema):
    @settings(max_examples=10)
    @given(batches(schema))
    def accepted(batch):
        validate(batch, schema, level="values")

    accepted()


@given(batches(Pixels, H=st.integers(7, 9)))
def test_a_name_is_drawn_once(batch):
    assert type(batch) is Pixels
    assert batch.cams.left.shape == batch.cams.right.shape
    assert batch.obs.shape == batch.obs_next.shape
    assert 7 <= batch.cams.left.shape[1] <= 9


@settings(max_examples=30)
@given(batches(Ruled))
def test_values_fulfil_the_rules(batch):
    validate(batch, Ruled, level="values")
    assert all(2 <= act <= 5 for act in batch.act)


@given(batches(RolloutBatchProtocol, N=6, fields={"rew": st.just(np.zeros(6))}).map(lambda batch: batch.rew))
def test_fields_and_sizes_that_are_given(rew):
    assert rew.tolist() == [0] * 6


def test_there_are_many():
    strategy, unshrunk = batches(RolloutBatch), settings(phases=[Phase.generate], max_examples=1000)
    assert len(find(strategy, lambda batch: len(batch) > 3)) == 4
    assert len(find(strategy, lambda batch: batch.terminated.any(), settings=unshrunk)) >= 1
    assert find(strategy, lambda batch: batch.act.dtype == np.int64, settings=unshrunk).act.dtype == np.int64
    assert find(batches(Pixels), lambda batch: batch.nothing is None, settings=unshrunk).nothing is None


def test_what_is_refused():
    with pytest.raises(SettingError, match="has no dimension 'Z'"):
        batches(RolloutBatch, Z=3)
    with pytest.raises(DeclarationError):
        batches(int)

    @given(batches(RolloutBatch, fields={"reww": st.none()}))
    def misspelt(batch: Any) -> None: ...

    with pytest.raises(SettingError, match="has no field 'reww'; did you mean 'rew'"):
        misspelt()


class Bounded(BatchRecord):
    small: Annotated[Float32[np.ndarray, "N"], Ge(0.1), Le(0.9)]
    half: Annotated[Float16[np.ndarray, "N"], Ge(0.1), Le(0.3)]
    any_float: Annotated[np.ndarray[Any, Any], Ge(0.1), Le(1.5)]


class InOrder(BatchRecord):
    a: Float32[np.ndarray, "N"]
    b: Float32[np.ndarray, "N"]

    @rule("a is at most b")
    def in_order(self) -> Any:
        return self.a <= self.b


class Halves(BatchRecord):
    whole: Float32[np.ndarray, "K"]
    half: Float32[np.ndarray, "N K/2"]


class Family(BatchRecord):
    x: np.ndarray[Any, Any]
    kids: dict[str, Family]
    kid: Family | np.ndarray[Any, Any]


@pytest.mark.parametrize("schema", [Bounded, InOrder, Halves, Family], ids=lambda schema: schema.__name__)
def test_what_does_not_fit_is_not_drawn(schema):
    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(batches(schema))
    def accepted(batch):
        validate(batch, schema, level="values")

    accepted()


def test_families_that_end_and_one_that_does_not():
    class Endless(BatchRecord):
        it: Endless

    globals()["Endless"] = Endless
    validate(example(Family), Family)
    with pytest.raises(RecursionError):
        example(Endless)
    assert len(example(Family, N=np.int64(3)).x) == 3
