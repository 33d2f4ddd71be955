"""Ragged: against a list of sequences, through everything that a batch does with its rows."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any

import numpy as np
import optree
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import BFloat16, Bool, Float, Float16, Float32, Int
from torch import Tensor
from torch.utils import _pytree

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    Ragged,
    SchemaError,
    cat,
    conforms,
    convert,
    objects,
    testing,
    validate,
)
from typedbatch._core.kinds import new_sequences
from typedbatch._ops.padding import take_or_zeros
from typedbatch.buffers import ReplayBuffer
from typedbatch.conversion import to_torch
from typedbatch.errors import (
    LeafError,
    NoLengthError,
    RowAssignmentError,
    RowIndexError,
    SizeError,
    StorageError,
    StructureError,
    TypedBatchError,
)
from typedbatch.files import load, save
from typedbatch.infer import infer_schema
from typedbatch.json_schema import json_schema

Rows = list[list[int]]
lists = st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=6)


def ragged(rows: Rows, kind: str = "numpy") -> Ragged[Batch]:
    """Two fields, one of them with a second dimension and one level further in."""
    flat = np.array([token for row in rows for token in row], np.int64)
    values = Batch(ids=flat, inner={"pair": np.stack([flat, -flat], 1).astype(np.float32)})
    return Ragged(values if kind == "numpy" else values.to_torch(), [len(row) for row in rows])


def back(tokens: Ragged[Any]) -> Rows:
    """The list of sequences, once both fields agree on it."""
    pairs = [sequence.inner.pair.tolist() for sequence in tokens]
    out: Rows = [sequence.ids.tolist() for sequence in tokens]
    assert pairs == [[[float(token), -float(token)] for token in row] for row in out]
    return out


def samples(rows: Rows, kind: str = "numpy") -> Batch:
    batch = Batch(uid=np.arange(len(rows)), tokens=ragged(rows, kind))
    return batch if kind == "numpy" else batch.to_torch()


kinds = st.sampled_from(["numpy", "torch"])


class TestAgainstLists:
    @given(lists, kinds, st.data())
    def test_indices_take_the_sequences_that_a_list_of_them_has(self, rows: Rows, kind: str, data: Any) -> None:
        batch, count = samples(rows, kind), len(rows)
        numbers = data.draw(st.lists(st.integers(-count, count - 1), max_size=8) if count else st.just([]))
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
        cut = data.draw(st.slices(count))
        wanted = [rows[i] for i in numbers]
        assert back(batch[numbers].tokens) == back(batch.tokens[numbers]) == wanted
        assert back(batch[torch.tensor(numbers, dtype=torch.int64)].tokens) == wanted
        assert back(batch[mask].tokens) == [row for row, there in zip(rows, mask, strict=True) if there]
        assert back(batch[cut].tokens) == back(batch.tokens[cut]) == rows[cut]
        assert [row.tokens.values.ids.tolist() for row in batch] == rows

    @given(lists, kinds, st.integers(1, 4), st.booleans())
    def test_cat_of_split_and_stack_of_rows_give_it_back(self, rows: Rows, kind: str, size: int, merge: bool) -> None:
        batch = samples(rows, kind)
        if rows:
            assert Batch.cat(list(batch.split(size, shuffle=False, merge_last=merge))) == batch
            assert Batch.stack(list(batch)) == batch

    @given(lists, kinds, st.randoms())
    def test_reordered_and_back(self, rows: Rows, kind: str, random: Any) -> None:
        order = list(range(len(rows)))
        random.shuffle(order)
        batch = samples(rows, kind)
        assert batch[order][np.argsort(np.array(order, int))] == batch
        assert back(batch[np.repeat(np.array(order, int), 2)].tokens) == [rows[i] for i in order for _ in range(2)]

    @given(lists, kinds, st.sampled_from(["left", "right"]), st.integers(1, 4), st.booleans())
    def test_padded_and_back(self, rows: Rows, kind: str, side: Any, multiple: int, whole: bool) -> None:
        tokens = ragged(rows, kind)
        mask, padded = tokens.mask(side, multiple_of=multiple), tokens.padded(side, value=9, multiple_of=multiple)
        assert mask.shape == padded.ids.shape == padded.inner.pair.shape[:2]
        assert mask.shape[1] % multiple == 0
        assert type(mask) is type(padded.ids)
        assert bool((padded.ids[~mask] == 9).all())
        assert Ragged.from_padded(padded, np.asarray(mask).astype(int) if whole else mask) == tokens

    @given(lists, kinds)
    def test_copies_share_nothing_and_pickles_are_equal(self, rows: Rows, kind: str) -> None:
        batch = samples(rows, kind)
        buffers: list[pickle.PickleBuffer] = []
        apart = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
        for other in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), pickle.loads(apart, buffers=buffers)):
            assert other == batch
        twin = copy.deepcopy(batch)
        twin.tokens.values.ids += 1
        assert back(batch.tokens) == rows
        assert batch.copy() == batch
        assert batch.copy().tokens is batch.tokens

    @given(lists)
    def test_from_lists_of_rows_and_of_columns(self, rows: Rows) -> None:
        twice = [[2 * token for token in row] for row in rows]
        by_row = Ragged.from_lists([{"ids": row, "twice": np.array(two)} for row, two in zip(rows, twice, strict=True)])
        by_column = Ragged.from_lists({"ids": rows, "twice": twice})
        assert [one.ids.tolist() for one in by_row] == [one.ids.tolist() for one in by_column] == rows
        assert by_row == by_column or not any(rows)  # of no tokens, nobody knows the dtype
        assert not any(rows) or by_row.values.ids.dtype == np.int64


def test_what_attention_kernels_ask_for():
    for tokens in (ragged([[1, 2], [], [3, 4, 5]]), ragged([[1, 2], [], [3, 4, 5]], "torch")):
        assert tokens.lengths.tolist() == [2, 0, 3]
        assert tokens.cu_seqlens.tolist() == [0, 2, 2, 5]
        assert tokens.position_ids.tolist() == [0, 1, 0, 1, 2]
        assert tokens.max_length == 3
        dtypes = [str(x.dtype).removeprefix("torch.") for x in (tokens.lengths, tokens.cu_seqlens, tokens.position_ids)]
        assert dtypes == ["int64", "int32", "int64"]
        assert type(tokens.cu_seqlens) is type(tokens.values.ids)


def test_slices_are_views_and_arrays_copies():
    batch = samples([[1, 2], [3], [4, 5]])
    assert np.shares_memory(batch[1:].tokens.values.ids, batch.tokens.values.ids)
    assert np.shares_memory(batch[2].tokens.values.ids, batch.tokens.values.ids)
    assert not np.shares_memory(batch[[1, 2]].tokens.values.ids, batch.tokens.values.ids)


def test_a_slice_may_have_a_step_beyond_any_number_of_rows():
    batch = samples([[1, 2], [3]], "numpy")
    assert back(batch[:: 2**63].tokens) == [[1, 2]]
    assert back(batch[:: -(2**70)].tokens) == [[3]]


def test_one_row_has_one_sequence_without_a_dimension():
    row = samples([[1, 2], [3]])[0]
    assert row.tokens.values.ids.tolist() == [1, 2]
    assert row.tokens.lengths.tolist() == 2
    assert repr(row.tokens) == "Ragged[2](ids i64[2], inner.pair f32[2,2])"
    for call in (lambda: len(row), lambda: len(row.tokens), lambda: row.tokens.padded(), lambda: row.tokens.mask()):
        with pytest.raises(NoLengthError):
            call()
    with pytest.raises(RowIndexError, match="single sequence, without rows"):
        row.tokens[0]


def test_repr_says_shapes_and_no_values():
    batch = samples([[1, 2], [3], []])
    assert "tokens: Ragged[3 x 0..2](ids i64[3], inner.pair f32[3,2])," in repr(batch)
    assert repr(ragged([[1], [2]])).startswith("Ragged[2 x 1](")
    assert repr(ragged([])).startswith("Ragged[0 x 0](")
    assert "Ragged[3 x 0..2]" in batch._repr_html_()


def test_jagged_tensors_are_made_of_it():
    nested = ragged([[1, 2], [3]], "torch").to_nested()
    assert nested.ids.is_nested
    assert [one.tolist() for one in nested.ids] == [[1, 2], [3]]
    assert nested.inner.pair.shape[2] == 2
    with pytest.raises(LeafError, match=r"'ids': i64\[3\] is not a tensor; call to_torch\(\)"):
        ragged([[1, 2], [3]]).to_nested()


def back_of(tokens: Any) -> list[list[float]]:
    return [one.x.tolist() for one in tokens]


def test_numbers_that_no_dtype_holds_stay_as_they_are():
    made = Ragged.from_lists([{"x": [2**63 + 1]}, {"x": [-1]}])
    assert back_of(made) == [[2**63 + 1], [-1]]
    assert Ragged.from_lists({"x": [[2**60], [1]]}).values["x"].dtype == np.int64


def test_jagged_tensors_are_taken_back_on_their_memory():
    tokens = ragged([[1, 2], [], [3]], "torch")
    back = Ragged.from_nested(tokens.to_nested())
    assert back == tokens
    assert back.values.ids.data_ptr() == tokens.values.ids.data_ptr()
    assert Ragged.from_nested({"x": tokens.to_nested().ids}).lengths.tolist() == [2, 0, 1]
    nested = torch.nested.nested_tensor([torch.ones(1), torch.ones(1)], layout=torch.jagged)
    part = torch.nested.nested_tensor_from_jagged(torch.arange(5.0), torch.tensor([1, 3, 4]))
    assert back_of(Ragged.from_nested({"x": part})) == [[1, 2], [3]]
    assert [row.tolist() for row in cat([Batch(x=part), Batch(x=part)]).x.unbind()] == [[1, 2], [3], [1, 2], [3]]
    with pytest.raises(StructureError, match="'y': its sequences have other lengths than those of 'x'"):
        Ragged.from_nested({"x": tokens.to_nested().ids, "y": nested})
    with pytest.raises(
        LeafError, match=r"'inner\.x': .* is not a jagged tensor without gaps; build nested tensors with"
    ):
        Ragged.from_nested({"inner": {"x": torch.ones(2)}})
    with pytest.raises(StructureError, match="at least one jagged tensor is needed"):
        Ragged.from_nested(Batch())
    with pytest.raises(LeafError, match="from_nested"):
        Ragged.from_nested(3)  # type: ignore[call-overload]


@given(
    st.lists(st.integers(0, 4), max_size=6), st.sampled_from(["i1", "u1", "?", "f2", "f4", "f8", "c8"]), st.booleans()
)
def test_sums_are_those_of_each_sequence(lengths, dtype, as_torch):
    total = sum(lengths)
    values: Any = (np.arange(2 * total).reshape(total, 2) % 5).astype(dtype)
    expected = [values[end - size : end].sum(0) for size, end in zip(lengths, np.cumsum(lengths), strict=True)]
    tokens: Any = Ragged({"x": torch.zeros(total) if as_torch else np.zeros(total)}, lengths)
    found = tokens.sum(torch.as_tensor(values) if as_torch else values)
    assert tuple(found.shape) == (len(lengths), 2)
    assert np.asarray(found).tolist() == [row.tolist() for row in expected]
    kind = {"f2": "float32", "f4": "float32", "f8": "float64", "c8": "complex64"}.get(dtype, "int64")
    assert str(found.dtype).removeprefix("torch.") == kind


def test_what_is_none_is_left_out_of_jagged_tensors_and_many_numbers_add_up():
    tokens = Ragged({"x": torch.arange(3), "y": None, "inner": {"z": None, "w": torch.ones(3)}}, [1, 2])
    assert list(tokens.to_nested().keys()) == ["x", "inner"]
    assert list(tokens.to_nested().inner.keys()) == ["w"]
    many = torch.full((100_000,), 0.1)
    for values in (many, many.numpy()):
        found = Ragged({"x": values}, [100_000]).sum(values)
        assert found.tolist() == [pytest.approx(10_000, rel=1e-6)]


def test_gradients_flow_through_sums_and_other_rows_are_refused():
    tokens = ragged([[1, 2], [3]], "torch")
    values = torch.ones(3, requires_grad=True)
    (tokens.sum(values) * torch.tensor([1.0, 5.0])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [1, 1, 5]
    assert tokens.sum(tokens.values.ids).tolist() == [3, 3]
    assert tokens.sequence_ids.tolist() == [0, 0, 1]
    assert ragged([[1, 2], [3]]).sequence_ids.dtype == np.int64
    with pytest.raises(StructureError, match="3 rows are expected, as the sequences have, got torch f32"):
        tokens.sum(torch.ones(2))
    for wrong in ([1, 2, 3], objects(["a", "b", "c"]), np.array(["2026-01-01"] * 3, "M8[D]")):
        with pytest.raises(LeafError, match="an array or a tensor of numbers is expected"):
            tokens.sum(wrong)  # type: ignore[call-overload]
    with pytest.raises(NoLengthError):
        samples([[1, 2], [3]])[0].tokens.sum(np.ones(2))


class TestLeafByLeaf:
    def test_conversions_go_through_the_values(self):
        batch = samples([[1, 2], [3]])
        tensors = batch.to_torch()
        assert isinstance(tensors.tokens.values.ids, Tensor)
        assert tensors == batch
        assert tensors.to_numpy() == batch
        assert to_torch(batch.tokens) == tensors.tokens
        assert tensors.to_torch(device="meta").tokens.values.ids.device.type == "meta"
        batch.to_torch_()
        assert isinstance(batch.tokens.values.inner.pair, Tensor)

    def test_arithmetic_keeps_the_lengths(self):
        batch = samples([[1, 2], [3]])
        assert (batch * 2).tokens.values.ids.tolist() == [2, 4, 6]
        assert (batch + batch).tokens.lengths.tolist() == [2, 1]
        assert np.negative(batch).tokens.values.ids.tolist() == [-1, -2, -3]
        with pytest.raises(
            StructureError, match=r"'tokens': \+ pairs rows, got Ragged\[2 x 1..2\] and Ragged\[2 x 0..3\]"
        ):
            batch + samples([[1, 2, 3], []])
        with pytest.raises(StructureError, match=r"'tokens': \+ takes a number or a Batch beside Ragged"):
            batch + np.ones(2)
        with pytest.raises(LeafError, match=r"'tokens': .*cannot take Ragged\[2 x 1..2\].*see .values"):
            np.mean(batch)
        before = copy.deepcopy(batch)
        with pytest.raises(LeafError, match="'tokens': "):
            batch += 1
        assert batch == before

    def test_nulls_are_found_in_sequences(self):
        batch = Batch(uid=[0, 1, 2], tokens=Ragged({"logp": [0.0, np.nan, 1.0]}, [1, 1, 1]))
        assert batch.hasnull()
        assert batch.isnull().tokens.values.logp.tolist() == [False, True, False]
        assert batch.dropnull().uid.tolist() == [0, 2]
        assert Batch.empty(batch).tokens.values.logp.tolist() == [0, 0, 0]
        doubled = batch.apply_values_transform(lambda leaf: leaf * 2)
        assert doubled.tokens.values.logp[2] == 2
        assert batch.allclose(batch + 1e-9, equal_nan=True)

    def test_as_a_pytree_its_lengths_are_structure(self):
        batch = samples([[1, 2], [3]], "torch")
        for tree_map in (_pytree.tree_map, optree.tree_map):
            doubled = tree_map(lambda x: x * 2, batch)
            assert back(doubled.tokens) == [[2, 4], [6]]
            assert tree_map(lambda x: x, batch[0]) == batch[0]
        paths = [_pytree.keystr(path) for path, _ in _pytree.tree_flatten_with_path(batch)[0]]
        assert paths == [".uid", ".tokens.values.ids", ".tokens.values.inner.pair"]

    def test_gaps_are_sequences_without_rows(self):
        batch = samples([[1, 2], [3]])
        assert back(Batch.cat([batch, {"uid": [5]}], missing="pad").tokens) == [[1, 2], [3], []]
        assert back(Batch.stack([batch[0], {"uid": 5}]).tokens) == [[1, 2], []]


@pytest.mark.parametrize("rows", [[[1, 2], [], [3]], [], [[]]])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_safetensors_keep_it(rows: Rows, kind: str, tmp_path: Any) -> None:
    batch = samples(rows, kind)
    save(batch, tmp_path / "batch.safetensors")
    assert load(tmp_path / "batch.safetensors") == batch
    if rows:
        save(batch[0], tmp_path / "row.safetensors")
        assert load(tmp_path / "row.safetensors") == batch[0]


def test_a_file_whose_lengths_wrap_around_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "batch.safetensors"
    forged = new_sequences(Ragged, Batch(ids=np.zeros(0)), np.full(4, 2**62))
    save(Batch(tokens=forged), path)  # with a checksum that is right
    with pytest.raises(StorageError, match=f"its sequences do not match its values: lengths sum up to {2**64} rows"):
        load(path)


@pytest.mark.parametrize(
    ("lengths", "error", "text"),
    [
        ([2**62] * 4, SizeError, f"lengths sum up to {2**64} rows"),
        ([-1, 15, 7, 7], SizeError, "whole numbers from 0 up"),
        ([7, 7, 7, 8], StructureError, r"'ids': f64\[28\] has 28 rows, and the lengths sum up to 29"),
    ],
)
def test_the_lengths_of_a_pickle_are_looked_at(lengths: list[int], error: type[Exception], text: str) -> None:
    good = pickle.dumps(Ragged({"ids": np.ones(28)}, [7, 7, 7, 7]))
    bad = good.replace(np.full(4, 7).tobytes(), np.array(lengths).tobytes())
    with pytest.raises(error, match=text):
        pickle.loads(bad)


BATCH = samples([[1, 2], [3], []])
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: Ragged([1, 2], [2]), LeafError, r"Ragged\(\) takes a Batch, got list"),
    (lambda: Ragged({"ids": [1]}, [2]), StructureError, r"'ids': i64\[1\] has 1 rows, and the lengths sum up to 2"),
    (lambda: Ragged({"x": {"ids": 1}}, [2]), StructureError, r"'x.ids': i64\[\] has no rows, and the lengths"),
    (lambda: Ragged({"ids": [1]}, [-1, 2]), SizeError, "lengths are whole numbers from 0 up"),
    (lambda: Ragged({"ids": [1]}, [1.0]), SizeError, "lengths are whole numbers from 0 up"),
    (lambda: Ragged({"ids": [1]}, [[1]]), SizeError, "in one dimension"),
    (
        lambda: Ragged({"a": np.zeros(0)}, [2**62] * 4),
        SizeError,
        f"sum up to {2**64} rows, and an array has .* at most",
    ),
    (lambda: Ragged({"a": np.zeros(0)}, [2**63 - 1, 2**63 - 1, 2]), SizeError, f"sum up to {2**64} rows"),
    (lambda: Ragged({}, torch.tensor([2**62] * 4)), SizeError, f"sum up to {2**64} rows"),
    (lambda: Ragged({}, np.array([2**63], np.uint64)), SizeError, "from 0 up, in one dimension, below 2"),
    (lambda: Batch.cat([Batch(t=Ragged({}, [2**59]))] * 32), SizeError, f"'t': lengths sum up to {2**64} rows"),
    (lambda: BATCH[7], RowIndexError, "out of bounds"),
    (lambda: BATCH.tokens[3], IndexError, "there are 3 sequences"),
    (lambda: BATCH.tokens[[5]], IndexError, "out of bounds"),
    (lambda: BATCH.tokens[[True]], IndexError, "the mask is for 1 rows, and there are 3 sequences"),
    (lambda: BATCH.tokens[[0.5]], RowIndexError, "by integers, or by a mask"),
    (lambda: BATCH.tokens[0:1, 0], RowIndexError, "takes one index, for whole sequences"),
    (lambda: BATCH[None], RowIndexError, "'tokens': .*got None, which adds a dimension"),
    (lambda: BATCH.tokens[[[0]]], RowIndexError, r"in one dimension, got i64\[1,1\]"),
    (lambda: BATCH.set_rows(0, BATCH[1]), RowAssignmentError, "'tokens': the rows of .* cannot be replaced in place"),
    (lambda: BATCH.empty_([1]), RowAssignmentError, "'tokens': .*make another Ragged"),
    (lambda: Batch.stack([BATCH, BATCH]), StructureError, "'tokens': .* cannot be stacked.*; use cat"),
    (lambda: Batch.cat([BATCH[0], BATCH[1]]), StructureError, "have no rows|without rows to concatenate"),
    (lambda: BATCH.to_at_least_2d(), StructureError, r"'tokens.ids': i64\[1,3\] has 1 rows"),
    (lambda: BATCH.tokens.padded("up"), SizeError, "side= must be 'right' or 'left', got 'up'"),  # type: ignore[arg-type]
    (lambda: BATCH.tokens.padded(length=1), SizeError, "a sequence has 2 rows, so it cannot be padded to 1"),
    (lambda: BATCH.tokens.padded(multiple_of=0), SizeError, "multiple_of is 1 or more, got 0"),
    (lambda: BATCH.tokens.padded(length=2**62), SizeError, f"length must be .* or less, .* got {2**62}"),
    (lambda: BATCH.tokens.mask(multiple_of=2**70), SizeError, f"multiple_of must be .* or less, .* got {2**70}"),
    (
        lambda: BATCH.tokens.padded(value={"idz": 1}),
        StructureError,
        r"must name fields \(.*, got 'idz'; did you mean 'ids'",
    ),
    (lambda: BATCH.tokens.padded(value=0.5), RowAssignmentError, "'ids': "),
    (lambda: Ragged.from_padded(Batch(a=np.ones((1, 2))), [[0, 2]]), StructureError, "other than 0 and 1"),
    (lambda: Ragged.from_padded(Batch(a=np.ones((1, 2))), [1]), StructureError, r"\(E, T\) bools, or numbers 0 and 1"),
    (lambda: Ragged.from_padded(Batch(a=np.ones(1)), [[1]]), RowIndexError, "'a': "),
    (lambda: Ragged.from_lists(5), LeafError, "a list of dicts, or a dict of lists, got int"),  # type: ignore[call-overload]
    (lambda: Ragged.from_lists({"a": 5}), LeafError, "'a': a field must be a list .* got int"),
    (lambda: Ragged.from_lists({"a": [[1], torch.ones(1)]}), StructureError, r"field 'a': cannot concatenate i64\[1\]"),
    (lambda: Ragged.from_lists([1]), LeafError, "a sequence must be a dict or a Batch .* at 0"),
    (lambda: Ragged.from_lists([{"a": 1}]), LeafError, "'a': a sequence must be a list, an array or a tensor"),
    (lambda: Ragged.from_lists([{"a": [1]}, {}]), StructureError, "sequence 1 has no field 'a'"),
    (lambda: Ragged.from_lists([{"a": [1], "b": []}]), StructureError, "'b': sequence 0 has 0 rows, but 1 in"),
    (lambda: Ragged.from_lists({"a": [[1]], "b": []}), StructureError, "'b': has 0 sequences, but the fields before"),
    (
        lambda: save(BATCH, "never.h5"),
        StorageError,
        "'tokens': .* cannot be stored in an HDF5 file; use a .safetensors",
    ),
    (
        lambda: ReplayBuffer(4).add(step(BATCH[0].tokens)),
        LeafError,
        "'tokens': rows of a buffer must have the same shape",
    ),
]


def step(tokens: Any) -> Batch:
    return Batch(obs=0, act=0, rew=0.0, terminated=False, truncated=False, obs_next=0, info={}, tokens=tokens)


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    before = copy.deepcopy(BATCH)
    with pytest.raises(error, match=text):
        call()
    assert before == BATCH


class Tokens(BatchRecord):
    ids: Int[Tensor, "T"]
    logp: Annotated[Float[Tensor, "T"], Finite]


class Samples(BatchRecord):
    uid: Int[np.ndarray, "N"]
    tokens: Ragged[Tokens]
    images: Ragged[Batch] | None = None


class HasTokens(BatchProtocol):
    @property
    def tokens(self) -> Ragged[Tokens]: ...


def declared() -> Samples:
    return testing.example(Samples)


def spoilt(**fields: Any) -> Batch:
    return Batch(declared().__dict__, **fields)


tensors = to_torch(Batch(ids=[1, 2, 3], logp=[0.0, 0.0, 0.0]))
PROBLEMS = [
    (lambda: spoilt(uid=np.arange(3)), "batch.uid .* N is 3 here, but 4 in "),
    (lambda: spoilt(tokens=tensors), r"batch.tokens .* expected a Ragged\[Tokens\]"),
    (lambda: spoilt(tokens=Ragged(tensors, [1, 2])), "batch.tokens .* N is 2 here, but 4 in "),
    (
        lambda: spoilt(tokens=Ragged(tensors.to_numpy(), [3, 0, 0, 0])),
        "batch.tokens.values.ids .*expected a torch tensor",
    ),
    (lambda: spoilt(tokens=Ragged({"ids": tensors.ids}, [3, 0, 0, 0])), "batch.tokens.values.logp .*missing"),
    (lambda: declared()[0], "batch.tokens .*expected one value per row"),
]


class TestDeclared:
    @pytest.mark.parametrize(("batch", "text"), PROBLEMS, ids=[text for _, text in PROBLEMS])
    def test_what_differs_is_named(self, batch: Any, text: str) -> None:
        assert not conforms(batch(), Samples)
        with pytest.raises(SchemaError, match=text):
            validate(batch(), Samples)

    def test_values_with_another_number_of_rows_are_found(self):
        batch = declared()
        batch.tokens.values["logp"] = torch.zeros(2)
        batch.tokens.values["ids"] = torch.zeros(2, dtype=torch.int64)
        assert not conforms(batch, Samples)
        with pytest.raises(SchemaError, match="2 rows here, where the lengths sum up to 11"):
            validate(batch, Samples)

    def test_rules_are_asked_of_the_values(self):
        batch = declared()
        batch.tokens.values.logp[3] = torch.nan
        assert conforms(batch, Samples)
        with pytest.raises(SchemaError, match=r"batch.tokens.values.logp .*1 of 11 values is not finite"):
            validate(batch, Samples, level="values")

    def test_rows_are_as_declared_and_conversion_knows_the_inner_kind(self):
        batch = declared()
        assert validate(batch[1:3], Samples).tokens.lengths.tolist() == [3, 4]
        assert convert(batch.to_numpy(), Samples) == batch
        assert validate(batch, HasTokens) is batch
        assert "tokens: Ragged[Tokens]" in infer_schema(batch, "Inferred")
        assert json_schema(Samples)["properties"]["tokens"]["description"] == "a Ragged[Tokens]"

    @given(testing.batches(Samples))
    def test_drawn_batches_conform(self, batch: Samples) -> None:
        assert conforms(batch, Samples)
        if len(batch):
            assert Batch.cat(list(batch.split(2, shuffle=False))) == batch


def test_to_moves_and_casts_what_is_in_it_and_the_lengths_stay():
    batch = Batch(tokens=Ragged(Batch(ids=torch.arange(3), logp=torch.zeros(3)), [1, 2]))
    moved = batch.to("meta", dtype=torch.bfloat16)
    assert (moved.tokens.values.ids.device.type, moved.tokens.values.logp.dtype) == ("meta", torch.bfloat16)
    assert moved.tokens.values.ids.dtype == torch.int64
    assert moved.tokens.sizes.tolist() == [1, 2]
    with pytest.raises(LeafError, match=r"field 'tokens\.(values\.)?ids'.*to_torch\(\) makes it one"):
        Batch(tokens=Ragged(Batch(ids=np.arange(3)), [1, 2])).to("meta")


def test_packed_sequences_come_back_and_so_do_other_rows_in_their_order():
    ragged = Ragged({"ids": torch.arange(6), "x": torch.arange(6.0)}, [2, 3, 1])
    packed = ragged.pack()
    assert packed.batch.ids.tolist() == [2, 0, 5, 3, 1, 4]
    assert Ragged.unpack(packed) == ragged
    doubled = Ragged.unpack(packed, Batch(y=packed.sequence(packed.batch.x).data * 2))
    assert doubled == Ragged({"y": torch.arange(6.0) * 2}, [2, 3, 1])
    assert Ragged.unpack(Ragged({"a": np.zeros(0)}, []).pack()) == Ragged({"a": np.zeros(0)}, [])
    with pytest.raises(SizeError, match="sequence 1 has no rows"):
        Ragged({"a": [1]}, [1, 0]).pack()
    with pytest.raises(NoLengthError, match="is a single sequence"):
        Batch(r=ragged)[0].r.pack()
    with pytest.raises(StructureError, match="6 rows were packed, got 1"):
        Ragged.unpack(packed, Batch(y=[1]))


class Declared(BatchRecord):
    """Values of every kind that lists can become."""

    ids: Int[Tensor, "tokens"]
    logp: Float32[Tensor, "tokens"]
    half: BFloat16[Tensor, "tokens"]
    flags: Bool[np.ndarray, "tokens"]
    small: Float16[np.ndarray, "tokens"]
    patch: Float32[Tensor, "tokens 2"]
    note: np.ndarray[Any, np.dtype[np.object_]] | None = None


@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
@pytest.mark.parametrize("lengths", [[2, 1], [0, 3], [0, 0], []])
@pytest.mark.parametrize("by_rows", [False, True])
def test_lists_become_what_the_record_declares(form: Any, lengths: list[int], by_rows: bool) -> None:
    columns = {
        "ids": [form(list(range(n))) for n in lengths],
        **{name: [form([0.5] * n) for n in lengths] for name in ("logp", "half", "small")},
        "flags": [form([True] * n) for n in lengths],
        "patch": [form([[0.5, 1.0]] * n) for n in lengths],
    }
    rows: Any = [{name: column[row] for name, column in columns.items()} for row in range(len(lengths))]
    made = Ragged.from_lists(rows if by_rows else columns, into=Declared)
    validate(made.values, Declared)
    assert made.lengths.tolist() == lengths
    assert made.values.patch.tolist() == [[0.5, 1.0]] * sum(lengths)
    assert made.values.half.tolist() == [0.5] * sum(lengths)


@pytest.mark.parametrize(("name", "given"), [("ids", [[0.5]]), ("flags", [[2]]), ("logp", [["a"]]), ("patch", [[1.0]])])
def test_lists_that_no_declared_dtype_holds_are_refused_by_name(name: str, given: Any) -> None:
    columns = {"ids": [[1]], "logp": [[1]], "half": [[1]], "flags": [[1]], "small": [[1]], "patch": [[[1, 2]]]}
    with pytest.raises(TypedBatchError, match=rf"{name}\W"):
        Ragged.from_lists({**columns, name: given}, into=Declared)


def test_a_row_that_is_absent_has_an_empty_sequence() -> None:
    batch = Batch(ids=Ragged(Batch(x=np.arange(6)), [2, 1, 3]))
    taken = take_or_zeros(batch, np.array([2, -1, 0]))
    assert [row.x.tolist() for row in taken.ids] == [[3, 4, 5], [], [0, 1]]
    with pytest.raises(RowIndexError, match="cannot be filled with zeros"):
        take_or_zeros(Batch(x=batch.to_torch().ids.to_nested().x), np.array([0, -1]))


def test_rows_of_a_ragged_of_masked_arrays_keep_what_belongs_to_the_mask() -> None:
    masked = np.ma.array(np.arange(3.0), mask=[0, 1, 0], fill_value=-7.0, hard_mask=True)
    taken = Ragged(Batch(x=masked), [1, 2])[[1, 0]].values.x
    assert (taken.fill_value, taken.hardmask, taken.mask.tolist()) == (-7.0, True, [True, False, False])
