"""Laws that hold for every batch, whatever its leaves, names and nesting."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import DTYPES, batches, numpy_batches, row_indices
from typedbatch import Batch
from typedbatch._core.kinds import ARRAY, BATCH, TENSOR, kind_of
from typedbatch._core.lengths import leaves
from typedbatch.errors import StructureError


def arrays_of(batch: Batch) -> list[tuple[str, Any]]:
    return [(path, leaf) for path, leaf in leaves(batch.__dict__) if kind_of(leaf) in (ARRAY, TENSOR)]


def same_memory(one: Any, two: Any) -> bool:
    if kind_of(one) is TENSOR:
        return bool(one.data_ptr() == two.data_ptr())
    return bool(np.shares_memory(one, two))


@given(batches(min_rows=1), st.integers(1, 6))
def test_cat_of_split_gives_the_batch_back(batch: Batch, size: int) -> None:
    assert Batch.cat(list(Batch.split(batch, size, shuffle=False))) == batch


@given(st.data())
def test_stack_then_index_gives_each_batch_back(data: st.DataObject) -> None:
    batch = data.draw(batches())
    others = [copy.deepcopy(batch), batch]
    stacked = Batch.stack([batch, *others], missing="error")
    for row in range(3):
        back = stacked[row]
        for path, leaf in leaves(batch.__dict__):
            if kind_of(leaf) is BATCH:
                assert _get(back, path) == leaf
        assert Batch({"x": back}) == Batch({"x": batch})


def _get(batch: Batch, path: str) -> Any:
    for name in path.split("."):
        if name not in batch.__dict__:
            return Batch()  # a name with a dot in it
        batch = batch.__dict__[name]
    return batch


@given(st.data())
def test_indexing_agrees_with_every_leaf(data: st.DataObject) -> None:
    batch = data.draw(numpy_batches())
    index = data.draw(row_indices(len(batch)))
    taken = batch[index]
    plain = index.numpy() if isinstance(index, torch.Tensor) else index
    plain = np.array(plain, int) if isinstance(plain, list) and not plain else plain
    for (path, got), (_, leaf) in zip(leaves(taken.__dict__), leaves(batch.__dict__), strict=True):
        expected = leaf[plain]
        assert np.array_equal(got, expected), path
        assert got.dtype == expected.dtype
        assert type(got) is type(expected)


@given(st.data())
def test_indexing_commutes_with_nesting(data: st.DataObject) -> None:
    inner = data.draw(batches())
    outer = Batch({"inner": inner})
    index = data.draw(row_indices(len(inner)))
    assert outer[index] == Batch({"inner": inner[index]})


@given(st.data())
def test_indexing_twice_is_indexing_once_with_the_composed_index(data: st.DataObject) -> None:
    batch = data.draw(batches(min_rows=1))
    rows = st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=6)
    first = np.array(data.draw(rows))
    second = np.array(data.draw(st.lists(st.integers(0, len(first) - 1), max_size=6)), int)
    assert batch[first][second] == batch[first[second]]


@given(batches(), st.sampled_from([2, 4, 5]))
def test_pickle_round_trip(batch: Batch, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(batch, protocol=protocol))
    assert back == batch
    assert repr(back) == repr(batch) or any(kind_of(leaf) not in (ARRAY, TENSOR) for _, leaf in leaves(batch.__dict__))


@given(numpy_batches(min_rows=1), st.booleans())
def test_pickle_out_of_band_moves_no_array_through_the_stream(batch: Batch, as_torch: bool) -> None:
    sent = batch.to_torch() if as_torch else batch
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(sent, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == len({id(leaf) for _, leaf in arrays_of(sent)})
    assert pickle.loads(stream, buffers=[bytearray(buffer) for buffer in buffers]) == sent


@given(numpy_batches(dtypes=tuple(DTYPES)))
def test_to_numpy_undoes_to_torch(batch: Batch) -> None:
    there = batch.to_torch()
    assert there.to_numpy() == batch
    assert all(kind_of(leaf) is TENSOR for _, leaf in leaves(there.__dict__))


@given(numpy_batches(min_rows=1))
def test_conversion_shares_memory_and_leaves_the_batch_alone(batch: Batch) -> None:
    before = copy.deepcopy(batch)
    there = batch.to_torch()
    for (_, tensor), (_, array) in zip(arrays_of(there), arrays_of(batch), strict=True):
        assert np.shares_memory(tensor.numpy(), array) or not array.size
    assert batch == before


@given(numpy_batches())
def test_conversion_in_place_keeps_nested_batches_the_same_objects(batch: Batch) -> None:
    nested = {name: value for name, value in batch.__dict__.items() if kind_of(value) is BATCH}
    expected = batch.to_torch()
    batch.to_torch_()
    assert batch == expected
    assert all(batch.__dict__[name] is value for name, value in nested.items())


@given(batches())
def test_copies_are_equal_and_share_what_they_say(batch: Batch) -> None:
    shallow, deep = copy.copy(batch), copy.deepcopy(batch)
    assert shallow == batch == deep
    for (_, mine), (_, same), (_, own) in zip(arrays_of(batch), arrays_of(shallow), arrays_of(deep), strict=True):
        assert mine is same
        assert own is not mine
        assert not getattr(mine, "nbytes", 0) or not same_memory(mine, own)


@given(batches())
def test_changing_the_structure_of_a_copy_leaves_the_source_alone(batch: Batch) -> None:
    before = repr(batch)
    for changed in (copy.copy(batch), Batch(batch)):
        for value in list(changed.__dict__.values()):
            if kind_of(value) is BATCH:
                value["new"] = 1
        changed["anchor"] = None
    assert repr(batch) == before


@given(batches(), batches())
def test_equality_is_an_equivalence_that_never_raises(one: Batch, two: Batch) -> None:
    assert one == copy.deepcopy(one)
    assert (one == two) is (two == one)
    assert Batch.allclose(one, one)  # it may have a field of that name
    assert (one != two) is not (one == two)


@given(st.data())
def test_assigning_rows_is_assigning_them_in_every_leaf(data: st.DataObject) -> None:
    batch = data.draw(numpy_batches(min_rows=1))
    index = data.draw(row_indices(len(batch)))
    assume(index is not None)
    expected = copy.deepcopy(batch)
    flipped = batch[::-1][index]
    plain = index.numpy() if isinstance(index, torch.Tensor) else index
    plain = np.array(plain, int) if isinstance(plain, list) and not plain else plain
    for (_, target), (_, source) in zip(leaves(expected.__dict__), leaves(batch.__dict__), strict=True):
        target[plain] = source[::-1][plain]
    batch[index] = copy.deepcopy(flipped)
    assert batch == expected


@np.errstate(all="ignore")
@given(numpy_batches(dtypes=("int64", "float64")))
def test_arithmetic_is_the_same_on_every_leaf(batch: Batch) -> None:
    before = copy.deepcopy(batch)
    shuffled = Batch(dict(reversed(batch.__dict__.items())))  # paired by name, whatever the order
    results = {
        "double": (batch + shuffled, lambda x: x + x),
        "half": (batch / 2, lambda x: x / 2),
        "reflected": (1 - batch, lambda x: 1 - x),
        "negative": (-batch, lambda x: -x),
        "ufunc": (np.tanh(batch), np.tanh),
        "scalar first": (np.float64(2) * batch, lambda x: np.float64(2) * x),
    }
    for name, (result, on_leaf) in results.items():
        for (_, got), (_, leaf) in zip(leaves(result.__dict__), leaves(batch.__dict__), strict=True):
            assert np.array_equal(got, on_leaf(leaf), equal_nan=True), name
    assert batch == before


@given(numpy_batches(min_rows=1))
def test_numpy_joins_batches_as_cat_and_stack_do(batch: Batch) -> None:
    assert np.concatenate([batch, batch]) == Batch.cat([batch, batch])
    assert np.stack([batch, batch]) == Batch.stack([batch, batch])


@given(batches(min_rows=1))
def test_a_list_of_rows_stacks_to_the_batch(batch: Batch) -> None:
    rows = list(Batch.__iter__(batch))
    again = Batch.stack(rows)
    for path, leaf in leaves(batch.__dict__):
        objects = kind_of(leaf) is ARRAY and leaf.dtype.hasobject  # may come back numeric: rows do not remember
        if kind_of(leaf) in (ARRAY, TENSOR) and "." not in path and not objects:
            assert Batch(x=again.__dict__[path]) == Batch(x=leaf), path


@given(batches())
def test_a_transformation_that_does_nothing_changes_nothing(batch: Batch) -> None:
    assert Batch.apply_values_transform(batch, lambda leaf: leaf) == batch


@given(batches())
def test_pytree_round_trip(batch: Batch) -> None:
    from torch.utils import _pytree

    flat, structure = _pytree.tree_flatten(batch)
    assert not any(kind_of(leaf) is BATCH for leaf in flat)
    assert _pytree.tree_unflatten(flat, structure) == batch


SIZE = 12


@st.composite
def views(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Batch]:
    """Fields on one block of memory, arrays and tensors, and that block."""
    block = np.arange(1.0, SIZE + 1)
    fields, rows = {}, draw(st.integers(1, 4))
    for name in "abcdefghijklmn"[: draw(st.integers(2, 14))]:
        step = draw(st.sampled_from([1, 2, 3]))
        start = draw(st.integers(0, SIZE - 1 - step * (rows - 1)))
        view = block[start : start + step * rows : step]
        fields[name] = torch.from_numpy(view) if draw(st.booleans()) else view[:: draw(st.sampled_from([1, -1]))]
    return block, Batch(fields)


@given(views(), st.sampled_from([operator.iadd, operator.imul, operator.ipow]), st.integers(2, 3))
def test_fields_on_one_block_of_memory_change_as_in_a_new_batch_or_not_at_all(
    given: tuple[np.ndarray[Any, Any], Batch], operation: Any, number: int
) -> None:
    block, batch = given
    before = block.copy()
    expected = operation(Batch({name: leaf + 0 for name, leaf in Batch.items(batch)}), number)
    try:
        assert operation(batch, number) == expected
    except StructureError:
        assert np.array_equal(block, before)


@given(views(), st.data())
def test_fields_on_one_block_of_memory_hold_the_rows_or_nothing_changes(
    given: tuple[np.ndarray[Any, Any], Batch], data: st.DataObject
) -> None:
    block, batch = given
    before, expected = block.copy(), Batch({name: leaf + 0 for name, leaf in Batch.items(batch)})
    index = data.draw(row_indices(len(batch)))
    number = st.sampled_from([1.0, 2.0, 3.0])
    rows = {name: data.draw(number) for name in Batch.keys(batch) if data.draw(st.booleans())}
    expected[index] = rows
    try:
        batch[index] = rows
    except StructureError:
        assert np.array_equal(block, before)
    else:
        assert batch == expected
