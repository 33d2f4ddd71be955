"""Columns of objects, and rows to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, Column, SchemaError, cat, conforms, objects, stack, validate
from typedbatch.bridges.torch_data import BatchDataset
from typedbatch.errors import RowAssignmentError, StructureError

ROWS: list[Any] = [{"answer": 5}, {"other": 1, "image": np.ones((4, 3))}, {}, {"image": np.ones((7, 3))}]


class Prompts(BatchRecord):
    extra: NDArray[np.object_]
    uid: NDArray[np.int64]
    tools: NDArray[np.object_] | None = None


class Item(BatchRecord):
    x: Column[Any]
    n: NDArray[np.int64]


class Nested(BatchRecord):
    inner: Item
    extra: NDArray[np.object_]


ITEMS: dict[str, list[Any]] = {
    "lists of one length": [[1, 2], [3, 4]],
    "ragged lists": [[1], [2, 3]],
    "tuples": [(1, 2), (3, 4)],
    "dicts of the same keys": [{"a": 1}, {"a": 2}],
    "dicts": [{"a": 1}, {"b": 2}],
    "empty dicts": [{}, {}],
    "arrays": [np.ones(2), np.ones(2)],
    "ragged arrays": [np.ones(2), np.ones(3)],
    "arrays of text": [np.array(["a"]), np.array(["b"])],
    "arrays of objects": [np.array([{}, {}], object), np.array([{}, 1], object)],
    "tensors": [torch.ones(2), torch.ones(2)],
    "numbers": [1, 2.5],
    "numpy scalars": [np.float32(1), np.int8(2)],
    "text": ["a", "b"],
    "None": [None, None],
    "some None": [None, [1]],
    "mixed": [{"a": 1}, [2, 3]],
}
EVERY_KIND = pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)


def nested(items: list[Any]) -> Nested:
    return Nested(inner=Item(x=objects(items), n=np.arange(len(items))), extra=objects(items))


def holds(column: Any, items: list[Any]) -> bool:
    same = column.dtype == object and column.shape == (len(items),)
    return same and all(one is item for one, item in zip(column, items, strict=True))


@EVERY_KIND
@pytest.mark.parametrize("join", [stack, np.stack, Nested.from_rows], ids=["stack", "np.stack", "from_rows"])
def test_rows_of_a_record_become_its_columns_of_objects_again(join, items):
    for held in (items, items[:1]):
        again = join(list(nested(held)))
        assert (type(again), type(again.inner)) == (Nested, Item)
        assert holds(again.extra, held)
        assert holds(again.inner.x, held)
        assert again.inner.n.tolist() == [0, 1][: len(held)]


@EVERY_KIND
def test_a_loader_that_stacks_rows_keeps_columns_of_objects(items):
    rows = list(BatchDataset(nested(items)))
    (batch,) = torch.utils.data.DataLoader(rows, batch_size=2, collate_fn=Batch.stack)  # type: ignore[arg-type, var-annotated]
    assert holds(batch.extra, items)


OBJECTS = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)


@given(st.lists(OBJECTS, min_size=1, max_size=4))
def test_stack_is_the_inverse_of_iteration(items):
    batch = nested(items)
    assert stack(list(batch)) == batch
    assert Nested.from_rows(list(batch)) == batch
    assert cat([batch[:1], batch[1:]]) == batch


def test_whole_batches_are_stacked_and_fields_that_are_missing_are_none():
    batch = nested([1, 2])
    assert stack([batch, batch]).inner.x.shape == (2, 2)
    reserved: Any = Item(x=Batch(), n=[1, 2])  # type: ignore[arg-type]
    assert stack(list(reserved)).x == Batch()
    lacks = batch[1].copy()
    del lacks.inner["x"]
    assert list(stack([batch[0], lacks]).inner.x) == [1, None]


@EVERY_KIND
def test_objects_are_assigned_to_rows_as_they_are(items):
    for batch in (nested(["a", "b"]), Batch(nested(["a", "b"]))):
        rows = [{"extra": item, "inner": {"x": item, "n": 0}} for item in items]
        batch[0], batch[1] = rows
        assert holds(batch.extra, items)
        assert holds(batch.inner.x, items)
        for index in (slice(0, 2), [1, 0], np.array([True, True])):
            batch.empty_()
            batch[index] = rows
            batch[index] = {"extra": items, "inner": {"x": items, "n": 0}}
            assert holds(batch[index].extra, items)
            assert holds(batch[index].inner.x, items)
        batch.set_array_at_key(items, "extra", [1, 0])
        assert holds(batch.extra[::-1], items)
        batch.set_array_at_key(items, "extra")
        assert holds(batch.extra, items)


def test_objects_that_are_not_one_for_each_row_are_refused():
    batch = nested(["a", "b"])
    with pytest.raises(
        RowAssignmentError, match=r"field 'extra': rows of shape \[2\] can be assigned here, got shape \[3\]"
    ):
        batch[0:2] = {"extra": [[1], [2], [3]]}
    assert list(batch.extra) == ["a", "b"]


def test_objects_are_never_looked_into():
    column = objects(ROWS)
    assert column.shape == (4,)
    assert all(one is row for one, row in zip(column, ROWS, strict=True))
    batch = Batch(extra=column, n=[1, 2, 3, 4])
    assert batch.extra is column
    assert list(cat([batch[1:], batch[:1]]).extra) == [*ROWS[1:], ROWS[0]]
    assert batch[2].extra is ROWS[2]


@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], [[1], [2, 3]], [np.ones(2), np.ones(2)], [], ["a", "b"]])
def test_objects_are_one_for_each_row(values):
    column = objects(iter(values))
    assert column.shape == (len(values),)
    assert column.dtype == object
    assert [id(one) for one in column] == [id(value) for value in values]


def test_what_a_record_declares_as_objects_stays_a_column_whatever_comes():
    prompts = Prompts(extra=[{"a": 1}, {"a": 2}], uid=[0, 1])
    assert list(prompts.extra) == [{"a": 1}, {"a": 2}]
    prompts.extra = [[1, 2], [3, 4]]  # type: ignore[assignment]  # what checkers say of a list
    assert list(prompts.extra) == [[1, 2], [3, 4]]
    prompts["extra"] = ({"a": 1}, {"b": 1})
    assert list(prompts.extra) == [{"a": 1}, {"b": 1}]
    prompts.update(tools=[1, 2])
    assert prompts.tools is not None
    assert list(prompts.tools) == [1, 2]
    assert conforms(prompts, Prompts)


def test_a_field_that_is_not_declared_as_objects_is_converted_as_ever():
    assert Prompts(extra=[1], uid=[{"a": 1}]).uid.a.tolist() == [1]  # type: ignore[list-item, attr-defined]


def test_a_declaration_that_cannot_be_read_yet_holds_nothing_up():
    class Waits(BatchRecord):
        later: Later  # type: ignore[name-defined]  # which is the point
        extra: NDArray[np.object_]

    assert type(Waits(later=[1], extra=[{"a": 1}]).extra) is Batch


def test_rows_become_columns_by_what_is_in_them():
    rows = [
        {"id": 1, "text": "a", "turns": [{"role": "u"}], "x": np.zeros(2), "t": torch.ones(3), "n": {"p": 0.5}},
        {"id": 2, "text": "b", "turns": [{"role": "v"}], "x": np.ones(2), "t": torch.ones(3), "n": {"p": 1.5}},
    ]
    batch = Batch.from_rows(rows)
    assert batch.id.tolist() == [1, 2]
    assert list(batch.text) == ["a", "b"]
    assert list(batch.turns) == [[{"role": "u"}], [{"role": "v"}]]
    assert batch.x.shape == (2, 2)
    assert batch.t.shape == (2, 3)
    assert batch.n.p.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "values",
    [
        [np.ones(2), np.ones(3)], [1, "a"], [1, None], [torch.ones(2), np.ones(2)], [{1: 2}, {3: 4}], [{}, {}],
        [[1, 2], [3, 4]],
    ],
)  # fmt: skip
def test_what_is_mixed_or_ragged_is_a_column_of_the_very_objects(values):
    column = Batch.from_rows([{"q": value} for value in values]).q
    assert column.dtype == object
    assert all(one is value for one, value in zip(column, values, strict=True))


def test_a_key_that_a_row_lacks_is_refused_unless_asked_for():
    rows = [{"n": {"a": 1, "b": 2}}, {"n": {"a": 3}}]
    with pytest.raises(StructureError) as caught:
        Batch.from_rows(rows)
    assert str(caught.value) == (
        "field 'n.b': row 1 lacks this key, which other rows have; missing='none' puts None there, missing='zero' "
        "zeros, and objects(...) around a column of dicts stores them unchanged"
    )
    assert list(Batch.from_rows(rows, missing="none").n.b) == [2, None]
    assert Batch.from_rows(rows, missing="zero").n.b.tolist() == [2, 0]


def test_a_row_is_named_by_its_number_among_all_rows():
    with pytest.raises(StructureError, match="'n': row 0 lacks this key"):
        Batch.from_rows([{}, {"n": {"a": 1}}])
    with pytest.raises(StructureError, match=r"'n\.a': row 2"):
        Batch.from_rows([{"n": {"a": 1}}, {"n": {"a": 1}}, {"n": {"b": 1}}])


def test_from_rows_of_a_record_is_that_record():
    prompts = Prompts.from_rows([{"extra": 1, "uid": 3}, {"extra": {"b": 1}, "uid": 4}])
    assert type(prompts) is Prompts
    assert list(prompts.extra) == [1, {"b": 1}]
    assert list(Prompts.from_rows([{"extra": 1, "uid": 3}]).extra) == [1]
    with pytest.raises(TypeError, match=r"unexpected field 'uuid'; did you mean 'uid'\?"):
        Prompts.from_rows([{"extra": 1, "uuid": 3}])
    with pytest.raises(TypeError, match="is missing 'uid'"):
        Prompts.from_rows([{"extra": 1}])


class Numbers(BatchRecord):
    pos: NDArray[np.float32]
    ids: NDArray[np.integer]
    any: NDArray[Any]


def test_a_list_in_each_row_is_an_array_where_numbers_are_declared():
    rows = [{"pos": [0.5, 1.0], "ids": (1, 2), "any": [1, 2]}, {"pos": [2.0, 3.0], "ids": (3, 4), "any": [3, 4]}]
    numbers = Numbers.from_rows(rows)
    assert numbers.pos.tolist() == [[0.5, 1.0], [2.0, 3.0]]
    assert numbers.pos.dtype == np.float64
    assert numbers.ids.tolist() == [[1, 2], [3, 4]]
    assert numbers.ids.dtype.kind == "i"
    assert numbers.any.tolist() == [[1, 2], [3, 4]]


def test_lists_that_are_no_array_stay_objects_and_the_check_says_so():
    rows = [{"pos": 1.0, "ids": [1, 2], "any": 0}, {"pos": 2.0, "ids": [3], "any": 0}]
    assert list(Numbers.from_rows(rows).ids) == [[1, 2], [3]]
    with pytest.raises(SchemaError, match=r"batch\.ids  dtype object, expected an integer type"):
        validate(Numbers.from_rows(rows), Numbers)


def test_rows_of_a_batch_and_fields_of_any_name():
    batch = Batch(a=[1, 2], n={"x": [[1.0], [2.0]]})
    assert Batch.from_rows(batch[i] for i in range(2)) == batch
    assert Batch.from_rows([{"copy": 1, "data": 2}])["copy"].tolist() == [1]
    assert Batch.from_rows([]) == Batch()


VALUES = st.one_of(st.integers(-9, 9), st.text(max_size=2), st.lists(st.integers(), max_size=3), st.none())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=1, max_size=5))
def test_nothing_is_invented_for_a_row(rows):
    batch = Batch.from_rows(rows, missing="none")
    for number, row in enumerate(rows):
        for name in batch.keys():  # noqa: SIM118  # it iterates over rows
            assert batch[name][number] == row.get(name)


def test_a_column_of_dicts_fulfils_its_declaration():
    assert list(validate(Batch(extra=objects(ROWS), uid=[1, 2, 3, 4]), Prompts).extra) == ROWS
    with pytest.raises(SchemaError, match="extra"):
        validate(Batch(extra=[{"a": 1}], uid=[1]), Prompts)


def test_rows_of_a_nested_batch_from_a_column_of_dicts_have_a_hint():
    batch = Batch(info=Batch(cost=np.zeros(2)))
    infos = np.array([{"cost": 5.0}], object)
    with pytest.raises(
        RowAssignmentError, match=r"got obj\[1\]; Batch\.from_rows\(\) makes a Batch of a column of dicts"
    ):
        batch.info[[1]] = infos
    batch.info[[1]] = Batch.from_rows(infos)
    assert batch.info.cost.tolist() == [0.0, 5.0]
