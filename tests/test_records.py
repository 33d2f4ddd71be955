"""Records: the checked constructor, closed attributes, stages at run time; and their twins, the protocols."""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import typedbatch
from typedbatch import (
    ActBatch,
    Batch,
    BatchRecord,
    DynamicBatch,
    ObsBatch,
    RolloutBatch,
    cat,
    protocols,
    records,
    stack,
    validate,
)
from typedbatch.errors import DeclarationError, FieldNameError, MissingFieldError
from typedbatch.schema import schema_of

Array = NDArray[Any]


class Critic(BatchRecord):
    values: Array
    returns: Array


class Sequences(BatchRecord):
    """A record as a user declares one, outside the hierarchy."""

    limit: ClassVar[int] = 5
    tokens: Array
    mask: Array
    reward: Array | None = None


class GoalRollout(RolloutBatch):
    goal: Array


def sequences(**more: Any) -> Sequences:
    return Sequences(tokens=np.zeros((3, 7), int), mask=np.ones((3, 7), bool), **more)


def test_the_constructor_converts_as_batch_does_and_copies_nothing():
    tokens = np.zeros((2, 3), int)
    record = Sequences(tokens=tokens, mask=[[1, 1, 1], [0, 1, 1]])
    assert record.tokens is tokens
    assert isinstance(record.mask, np.ndarray)
    assert isinstance(record, Batch)


def test_fields_come_in_the_order_of_the_declaration_with_defaults():
    record = Sequences(mask=np.zeros(2), tokens=np.zeros(2))
    assert list(record.keys()) == ["tokens", "mask", "reward"]
    assert record.reward is None
    assert "limit" not in record


def test_a_missing_and_a_misspelt_field_are_type_errors_that_name_it():
    with pytest.raises(TypeError, match=r"Sequences\(\) is missing 'mask'; it was given tokens"):
        Sequences(tokens=np.zeros(2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Sequences\(\) got an unexpected field 'maks'; did you mean 'mask'\?"):
        Sequences(tokens=np.zeros(2), maks=np.zeros(2))  # type: ignore[call-arg]
    with pytest.raises(TypeError) as caught:
        Sequences(np.zeros(2), np.zeros(2))  # type: ignore[call-arg, misc]
    assert str(caught.value) == "Sequences() takes its fields as keywords, got f64[2] by position"
    with pytest.raises(TypeError) as caught:
        Sequences(Batch(tokens=[1]), mask=np.zeros(1))  # type: ignore[call-arg, misc]
    assert str(caught.value) == (
        "Sequences() takes its fields as keywords, got Batch(tokens) by position; "
        "extend(batch, Sequences, ...) makes one of a batch"
    )


def test_only_declared_names_can_be_set_as_attributes():
    record = sequences()
    record.mask = [True]  # type: ignore[assignment]
    assert record.mask.dtype == bool
    with pytest.raises(FieldNameError, match=r"declares no field 'maks'; did you mean 'mask'\? batch\['maks'\] = ..."):
        record.maks = 1  # type: ignore[attr-defined]
    record["maks"] = 1
    assert record["maks"] == 1


def test_the_class_survives_everything_that_keeps_the_fields():
    record = sequences()
    for other in (
        record[0], record[:2], record[[0, 1]], record[record.mask[:, 0]], next(iter(record)), next(record.split(2)),
        Batch.cat([record, record]), Batch.stack([record, record]), record.copy(), copy.deepcopy(record),
        pickle.loads(pickle.dumps(record)), record + 1, record.to_torch(), record.dropnull(), Batch.empty(record),
    ):  # fmt: skip
        assert type(other) is Sequences


def test_different_classes_join_to_a_plain_batch():
    assert type(Batch.stack([ActBatch(act=np.zeros(2)), Batch(act=np.zeros(2))])) is Batch


def test_a_parametrised_record_is_called_like_the_record_and_leaves_no_trace():
    record = ObsBatch[torch.Tensor](obs=torch.zeros(2), info=Batch())
    assert type(record) is ObsBatch
    assert list(record.keys()) == ["obs", "info"]


@pytest.mark.parametrize("name", ["keys", "split", "shape", "copy", "__len__"])
def test_a_name_that_every_batch_has_cannot_be_declared(name: str):
    with pytest.raises(DeclarationError, match=f"Bad cannot declare '{name}': it is a member of every Batch"):
        type("Bad", (BatchRecord,), {"__annotations__": {name: int}})


def test_records_inherit_from_several_records():
    class Both(ActBatch, Sequences):
        extra: Array

    assert [field.name for field in schema_of(Both).fields] == ["act", "tokens", "mask", "reward", "extra"]
    with pytest.raises(TypeError, match="missing 'act', 'extra'"):
        Both(tokens=np.zeros(2), mask=np.zeros(2))  # type: ignore[call-arg]


def test_a_missing_field_of_a_view_is_an_attribute_error():
    view = validate(Batch(act=np.zeros(2)), ActBatch)
    del view["act"]
    with pytest.raises(MissingFieldError, match="ActBatch has no field 'act'; it is empty"):
        view.act


def test_dynamic_batch_is_batch():
    assert DynamicBatch is Batch


TWINS = {
    name: name.removesuffix("Protocol") for name in dir(protocols) if name.endswith("BatchProtocol")
} | {
    "BatchWithReturnsProtocol": "BatchWithReturns",
    "BatchWithAdvantagesProtocol": "BatchWithAdvantages",
    "LogpOldProtocol": "LogpOldBatch",
    "RecurrentStateBatch": "RecurrentState",
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "record"), TWINS.items())
def test_protocol_and_record_have_the_same_fields_in_the_same_order(protocol: str, record: str):
    one, two = schema_of(getattr(protocols, protocol)), schema_of(getattr(records, record))
    key = lambda field: field.name  # noqa: E731
    assert [f.name for f in one.fields] == [f.name for f in two.fields]
    for mine, other in zip(sorted(one.fields, key=key), sorted(two.fields, key=key), strict=True):
        assert (mine.kinds, mine.optional, mine.expects()) == (other.kinds, other.optional, other.expects()), mine.name


def test_there_are_sixteen_protocols_each_with_a_twin_at_the_top_level():
    assert len(TWINS) == 16
    for name in [*TWINS, *TWINS.values(), "BatchRecord"]:
        assert hasattr(typedbatch, name)
        assert name in typedbatch.__all__


def test_the_hierarchy_is_the_documented_one():
    def bases(name: str) -> set[str]:
        return {base.__name__ for base in getattr(protocols, name).__mro__[1:]}

    assert "BatchWithReturnsProtocol" in bases("BatchWithAdvantagesProtocol")
    assert {"RolloutBatchProtocol", "ObsBatchProtocol"} <= bases("LogpOldProtocol")
    assert {"ModelOutputBatchProtocol", "ActStateBatchProtocol", "ActBatchProtocol"} <= bases(
        "DistLogProbBatchProtocol"
    )


def test_values_is_a_field_where_a_record_declares_it():
    made = Critic(values=np.ones(2), returns=np.zeros(2))
    assert made.values.tolist() == made[:].values.tolist() == cat([made[:1], made[1:]]).values.tolist() == [1, 1]
    made.values = np.zeros(2)
    assert [array.tolist() for array in Batch.values(made)] == [[0, 0], [0, 0]]
    assert validate(Batch(values=np.ones(2), returns=np.ones(2)), Critic).values.tolist() == [1, 1]
    assert (made == made.copy()) is True
    assert pickle.loads(pickle.dumps(made)).values.tolist() == [0, 0]
    assert {**made}.keys() == {"values", "returns"}
    assert made.to_torch().values.tolist() == [0, 0]
    with pytest.raises(DeclarationError, match="cannot declare 'items'"):
        type("Own", (BatchRecord,), {"__annotations__": {"items": Array}})


def test_a_class_may_be_declared_where_no_module_is() -> None:
    names: dict[str, Any] = {"BatchRecord": BatchRecord}
    exec("class Alone(BatchRecord):\n    x: object\n", names)  # globals without __name__
    assert names["Alone"](x=[1]).x.tolist() == [1]


def test_rows_with_an_absent_field_are_stacked_to_a_record_without_it():
    class Scored(BatchRecord):
        rew: NDArray[np.float64]
        weight: NDArray[np.float64] | None = None
        note: NDArray[np.object_] | None = None

    batch = Scored(rew=np.arange(3.0))
    for made in (stack(list(batch)), stack([batch[0], batch[1], batch[2]])):
        assert made.weight is None
        assert validate(made, Scored) == made
    assert stack([Scored(rew=np.zeros(2)), Scored(rew=np.ones(2))]).weight is None
    weighted = Scored(rew=np.arange(2.0), weight=np.ones(2))
    assert np.array_equal(stack(list(weighted)).weight, [1.0, 1.0])


@pytest.mark.parametrize("declared", [RolloutBatch, protocols.RolloutBatchProtocol])
def test_too_many_type_arguments_are_told_once(declared):
    with pytest.raises(TypeError, match="Too many arguments") as caught:
        declared[int, int, int, int]
    assert caught.value.__context__ is None
