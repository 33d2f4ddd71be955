"""Sources of a batch, and the conversion of the values that are put into it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch, MultiAgentBatch, ObsBatch, Ragged, SampleBatch, errors
from typedbatch.buffers import HERReplayBuffer, ReplayBuffer, VectorReplayBuffer


@pytest.mark.parametrize(
    "batch",
    [Batch(a=4, b=[5, 5], c="hello"), Batch({"a": 4, "b": [5, 5], "c": "hello"}), Batch({"a": 4}, b=[5, 5], c="hello")],
    ids=["keywords", "dict", "both"],
)
def test_keywords_and_a_dict_make_the_same_batch(batch):
    assert_shows(
        batch,
        """
        Batch(
            a: array(4),
            b: array([5, 5]),
            c: 'hello',
        )
        """,
    )


def test_batches_nest_as_batches_and_as_dicts():
    expected = """
        Batch(
            obs: Batch(
                     x: array(1),
                     y: array(2),
                 ),
            act: array(5),
        )
        """
    assert_shows(Batch(obs=Batch(x=1, y=2), act=5), expected)
    assert_shows(Batch(obs={"x": 1, "y": 2}, act=5), expected)


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}),
        np.array([{"a": 1, "b": 2}, {"a": 3, "b": 4}], dtype=object),
        [Batch(a=1, b=2), Batch(a=3, b=4)],
        [Batch(a=1, b=2), {"a": 3, "b": 4}],
    ],
    ids=["list", "tuple", "object array", "Batches", "mixed"],
)
def test_a_sequence_of_dicts_or_batches_is_stacked_one_row_each(rows):
    assert_shows(
        Batch(rows),
        """
        Batch(
            a: array([1, 3]),
            b: array([2, 4]),
        )
        """,
    )


def test_arrays_are_kept_by_reference_unless_a_copy_is_asked_for():
    array = np.array([1, 2, 3])
    Batch(a=array).a[0] = 999
    assert_array(array, [999, 2, 3])
    array = np.array([1, 2, 3])
    Batch(a=array, copy=True).a[0] = 999
    assert_array(array, [1, 2, 3])


@pytest.mark.parametrize("data", [None, {}, [], (), Batch(), np.array([], dtype=object)], ids=repr)
def test_nothing_makes_an_empty_batch(data):
    assert list(Batch(data).keys()) == []


@pytest.mark.parametrize(
    "data",
    [5, 0, False, "abc", [1, 2], [None], [{"a": 1}, 5], np.zeros(3), {1, 2}, iter([]), object()],
    ids=lambda data: type(data).__name__,
)
def test_what_has_no_names_is_not_silently_an_empty_batch(data):
    with pytest.raises(errors.LeafError) as caught:
        Batch(data)
    assert isinstance(caught.value, TypeError)


ON_INSTANCES: dict[str, Any] = {
    "Batch.cat": lambda: Batch(a=[1]).cat([Batch(a=[2])]),
    "Batch.stack": lambda: Batch(a=[1]).stack([Batch(a=[2])]),
    "Batch.from_rows": lambda: Batch(a=[1]).from_rows([{"a": 1}]),
    "ObsBatch.from_rows": lambda: ObsBatch(obs=np.ones(1), info=Batch()).from_rows(rows=[]),
    "ObsBatch.cat": lambda: ObsBatch(obs=np.ones(1), info=Batch()).cat([]),
    "SampleBatch.cat": lambda: SampleBatch({"obs": [1]}).cat([]),
    "MultiAgentBatch.wrap_as_needed": lambda: MultiAgentBatch({}, 0).wrap_as_needed({}, 0),
    "Ragged.from_lists": lambda: Ragged.from_lists({"a": [[1]]}).from_lists([[1]]),
    "Ragged.from_padded": lambda: Ragged.from_lists({"a": [[1]]}).from_padded(Batch(), None),
    "Ragged.unpack": lambda: Ragged.from_lists({"a": [[1]]}).unpack(None),
    "ReplayBuffer.open": lambda: ReplayBuffer(1).open("path"),
    "ReplayBuffer.load_hdf5": lambda: ReplayBuffer(1).load_hdf5("path"),
    "VectorReplayBuffer.from_data": lambda: VectorReplayBuffer(2, 1).from_data(*"obs act"),
    "HERReplayBuffer.open": lambda: HERReplayBuffer(1, max, 1).open("path", compute_reward_fn=max),
    "HERReplayBuffer.load_hdf5": lambda: HERReplayBuffer(1, max, 1).load_hdf5("path", compute_reward_fn=max),
}


@pytest.mark.parametrize("name", ON_INSTANCES)
def test_what_makes_a_new_object_is_not_called_on_another(name):
    with pytest.raises(errors.FieldNameError, match=rf"call it on the class: {name}\(\.\.\.\)"):
        ON_INSTANCES[name]()


def test_a_field_may_have_the_name_of_what_is_called_on_the_class():
    batch = Batch({"cat": [1], "stack": [2]})
    assert (batch.cat.tolist(), batch.stack.tolist()) == ([1], [2])
    assert type(batch).cat([batch, batch]).cat.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("value", "expected", "dtype"),
    [
        (5, 5, "int64"), (3.14, 3.14, "float64"), (True, True, "bool"), (np.int32(1), 1, "int32"),
        (np.float64(2.3), 2.3, "float64"), (np.bool_(True), True, "bool"), ([1, 2, 3], [1, 2, 3], "int64"),
        ([5.0, np.nan], [5.0, np.nan], "float64"), ((5, 5), [5, 5], "int64"), ([False, True], [False, True], "bool"),
        ([None, None], [None, None], object), (["x", "y"], ["x", "y"], object),
    ],
    ids=repr,
)  # fmt: skip
def test_numbers_and_lists_become_arrays(value, expected, dtype):
    assert_array(Batch(a=value).a, expected, dtype)


@pytest.mark.parametrize("value", [[1, "hello", None], ("a", -2, -3), [2.0, "st"]], ids=repr)
def test_mixed_lists_keep_their_values_in_an_object_array(value):
    stored = Batch(a=value).a
    assert stored.dtype == object
    assert [(type(x), x) for x in stored] == [(type(x), x) for x in value]


def test_numpy_numbers_in_mixed_lists_are_kept():
    stored = Batch(a=[np.float32(1.5), "x", None]).a
    assert stored[0] == 1.5
    assert stored[1:].tolist() == ["x", None]


def stored(value: Any, how: str, batch: Batch) -> Any:
    """The value as a batch holds it once it was set in that way, in ``batch`` or in a new one."""
    if how == "keyword":
        batch = Batch(a=value)
    elif how == "dict":
        batch = Batch({"a": value})
    elif how == "transform":
        batch = Batch(a=0).apply_values_transform(lambda _: value)
    elif how == "setdefault":
        batch = Batch()
        batch.setdefault("a", value)
    elif how == "attribute":
        batch.a = value
    elif how == "item":
        batch["a"] = value
    elif how == "update":
        batch.update(a=value)
    else:
        batch.update({"a": value})
    return batch.a


WAYS = ["keyword", "dict", "transform", "setdefault", "attribute", "item", "update", "update by dict"]


@pytest.mark.parametrize(
    "value",
    [Batch(x=1), torch.zeros(2), np.zeros(2), np.array([True]), None, {1, 2}, "text", len, int, Normal(0.0, 1.0)],
)
@pytest.mark.parametrize("how", WAYS)
def test_these_values_are_stored_as_the_same_object(value, how):
    assert stored(value, how, Batch()) is value


@pytest.mark.parametrize("how", WAYS)
def test_values_are_converted_wherever_they_are_set(how):
    value = stored([{"x": 1}, {"x": 2}], how, Batch(a=0))
    assert type(value) is Batch
    assert_array(value.x, [1, 2])


@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_or_a_tuple_of_tensors_is_stacked(sequence):
    assert Batch(a=sequence([torch.zeros(2), torch.ones(2)])).a.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_ragged_arrays_in_a_list():
    ragged = Batch(a=[np.zeros((2, 3)), np.zeros((3, 3))]).a
    assert ragged.dtype == object
    assert [x.shape for x in ragged] == [(2, 3), (3, 3)]
    with pytest.raises(TypeError):
        Batch(a=[np.zeros((3, 2)), np.zeros((3, 3))])


def test_an_array_of_dicts_is_kept_and_a_list_of_it_becomes_a_nested_batch():
    column = np.array([{"t": 1}, {"t": 2}], dtype=object)
    assert Batch(info=column).info is column
    for info in (Batch(info=list(column)).info, Batch.from_rows(column), Batch(column)):
        assert type(info) is Batch
        assert_array(info.t, [1, 2])


def test_a_list_of_dicts_and_none_is_an_object_array():
    stored = Batch(a=[{"x": 1}, None]).a
    assert stored.dtype == object
    assert list(stored) == [{"x": 1}, None]


CHANGED_BY_NUMPY = [
    [2**53 + 1, 0.5], [np.uint64(2**64 - 1), -1], [np.int64(2**53 + 1), np.float64(0.5)], [True, 2**60 + 1, 1j],
]  # fmt: skip


@pytest.mark.parametrize("values", CHANGED_BY_NUMPY, ids=str)
def test_no_whole_number_changes_where_numpy_would_make_a_float_of_it(values):
    assert np.asarray(values).dtype.kind in "fc"
    made = [
        Batch(x=values).x, Batch(x=[values]).x[0], Batch([{"x": value} for value in values]).x,
        Batch.from_rows([{"x": value} for value in values]).x,
        Batch.from_rows([{"n": {"x": value}} for value in values]).n.x, Ragged.from_lists({"x": [values]}).values.x,
        Ragged.from_lists({"x": [[value] for value in values]}).values.x,
    ]  # fmt: skip
    for column in made:
        assert column.dtype == object
        assert column.tolist() == values


@pytest.mark.parametrize("values", [[2**53, 0.5], [2**63, -1], [1e300, 1], [np.inf, np.nan, 7], [2**60 + 1, 2], [1e20]])
def test_numbers_that_stay_what_they_are_become_an_array(values):
    for column in (Batch(x=values).x, Batch.from_rows([{"x": value} for value in values]).x):
        assert column.dtype == np.asarray(values).dtype
        assert str(column.tolist()) == str(np.asarray(values).tolist())
