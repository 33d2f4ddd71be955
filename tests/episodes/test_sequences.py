"""Sequences end to end, padded and packed: by hand, against naive loops, and against torch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from tests.ops.helpers import assert_array, assert_identical
from typedbatch import ActBatch, Batch, ObsBatch, SampleBatch
from typedbatch.errors import LeafError, NoLengthError, RowIndexError, SizeError, StructureError
from typedbatch.sequences import chop, cu_seqlens, cut, mask, pack, pad, position_ids, sequence_ids, starts, unpad

LENS = st.lists(st.integers(0, 4), max_size=5)
SOME = st.lists(st.integers(1, 4), min_size=1, max_size=5)
FORMS = pytest.mark.parametrize("form", [list, tuple, np.array, np.uint8, torch.tensor], ids=lambda form: form.__name__)


def rows(count: int) -> Batch:
    return Batch(
        a=np.arange(1, count + 1), obs={"x": np.arange(2.0 * count).reshape(count, 2)}, t=torch.arange(1.0, count + 1),
        o=np.array([f"o{i}" for i in range(count)], object), nothing=None, reserved=Batch(),
    )  # fmt: skip


def naive_padded(lens: list[int], length: int, side: str) -> list[list[int]]:
    found, first = [], 1
    for size in lens:
        row, zeros = list(range(first, first + size)), [0] * (length - size)
        found.append(row + zeros if side == "right" else zeros + row)
        first += size
    return found


@FORMS
def test_what_lengths_say_of_rows(form):
    lens = form([2, 0, 3])
    found = [function(lens) for function in (starts, position_ids, sequence_ids, cu_seqlens, mask)]
    kind = Tensor if isinstance(lens, Tensor) else np.ndarray
    assert [type(array) for array in found] == [kind] * 5
    begins, positions, numbers, ends, there = (np.asarray(array) for array in found)
    assert_array(begins, [0, 2, 2])
    assert_array(positions, [0, 1, 0, 1, 2])
    assert_array(numbers, [0, 0, 2, 2, 2])
    assert_array(ends, [0, 2, 2, 5], np.int32)
    assert_array(there, [[True, True, False], [False] * 3, [True] * 3], bool)


def test_no_sequences():
    assert_array(cu_seqlens([]), [0], np.int32)
    for found in (starts([]), position_ids([]), sequence_ids([]), chop([], 3)):
        assert found.shape == (0,)
        assert found.dtype == np.intp
    assert mask([]).shape == (0, 0)
    assert mask([], 3).shape == (0, 3)
    assert mask([0, 0]).shape == (2, 0)


@given(LENS)
def test_numbers_of_rows_are_those_of_naive_loops(lens):
    assert position_ids(lens).tolist() == [i for size in lens for i in range(size)]
    assert sequence_ids(lens).tolist() == [number for number, size in enumerate(lens) for _ in range(size)]
    assert starts(lens).tolist() == [sum(lens[:i]) for i in range(len(lens))]
    assert cu_seqlens(lens).tolist() == [sum(lens[:i]) for i in range(len(lens) + 1)]


@given(LENS, st.integers(1, 5))
def test_chop_is_a_naive_loop(lens, size):
    expected = []
    for length in lens:
        while length:
            expected.append(min(size, length))
            length -= expected[-1]
    assert chop(lens, size).tolist() == expected


NO_LENGTHS = [
    [1.0], [-1, 2], [[1, 2]], 3, None, "12", [True, False], ["1"], [None], [2**70], [[1], [2, 3]],
    np.array([2**63], np.uint64), np.array([], str), torch.tensor([0.5]), {1, 2},
]  # fmt: skip


@pytest.mark.parametrize("lens", NO_LENGTHS, ids=repr)
@pytest.mark.parametrize("use", [starts, cu_seqlens, position_ids, sequence_ids, mask, lambda lens: chop(lens, 2)])
def test_what_are_no_lengths(use, lens):
    with pytest.raises(SizeError, match="lengths are whole numbers from 0 up, in one dimension"):
        use(lens)


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", None])
def test_chop_takes_a_size_of_at_least_one_row(size):
    with pytest.raises(SizeError, match=r"size is (1 or more|a whole number)"):
        chop([3], size)


@pytest.mark.parametrize("length", [1, -1, 2.5, "3"])
def test_mask_takes_a_length_that_is_one(length):
    with pytest.raises(SizeError):
        mask([2, 1], length)


def test_more_rows_than_int32_counts_do_not_overflow_in_silence():
    try:
        found = cu_seqlens([2**31])
    except SizeError:
        return
    assert found.tolist() == [0, 2**31]


@given(LENS)
def test_cut_gives_views_of_each_sequence(lens):
    batch = rows(sum(lens))
    parts = cut(batch, lens)
    assert [part.a.tolist() for part in parts] == [part.tolist() for part in np.split(batch.a, np.cumsum(lens)[:-1])][
        : len(lens)
    ]
    assert all(np.shares_memory(part.a, batch.a) for part in parts if len(part))


@pytest.mark.parametrize("side", ["right", "left"])
@given(lens=LENS, more=st.integers(0, 2))
def test_pad_is_a_naive_loop_and_unpad_takes_it_back(side, lens, more):
    batch, length = rows(sum(lens)), max(lens, default=0) + more
    padded = pad(batch, lens, length=length, side=side)
    assert padded.a.tolist() == padded.t.tolist() == naive_padded(lens, length, side)
    assert padded.obs.x.shape == (len(lens), length, 2)
    assert_identical(unpad(padded, mask(lens, length, side)), batch)


def test_pad_by_hand():
    padded = pad(rows(3), [1, 2])
    assert_array(padded.a, [[1, 0], [2, 3]], np.arange(1).dtype)
    assert_array(padded.obs.x, [[[0, 1], [0, 0]], [[2, 3], [4, 5]]])
    assert_array(padded.o, [["o0", None], ["o1", "o2"]])
    assert torch.equal(padded.t, torch.tensor([[1.0, 0], [2, 3]]))
    assert (padded.nothing, padded.reserved) == (None, Batch())


@given(SOME)
def test_a_list_of_batches_is_padded_as_their_rows(lens):
    batch = rows(sum(lens))
    assert_identical(pad(cut(batch, lens)), pad(batch, lens))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int8, torch.complex64])
def test_dtypes_stay(dtype):
    padded = pad(Batch(t=torch.ones(3, dtype=dtype)), [1, 2])
    assert padded.t.dtype == dtype
    assert padded.t.tolist() == [[1, 0], [1, 1]]
    times = pad(Batch(a=np.array(["2020", "2021", "2022"], "datetime64[Y]")), [1, 2])
    assert times.a.dtype == "datetime64[Y]"


def test_gradients_flow_through_pad_and_unpad():
    t = torch.arange(3.0, requires_grad=True)
    padded = pad(Batch(t=t), [1, 2])
    (padded.t * torch.tensor([[1.0, 50], [3, 4]])).sum().backward()
    assert t.grad.tolist() == [1, 3, 4]
    t.grad = None
    (unpad(pad(Batch(t=t), [1, 2]), mask([1, 2])).t * torch.arange(3.0)).sum().backward()
    assert t.grad.tolist() == [0, 1, 2]


def test_records_and_sample_batches_keep_their_class():
    record = ObsBatch(obs=np.arange(3), info=np.arange(3))
    assert type(pad(record, [1, 2])) is type(cut(record, [1, 2])[0]) is type(pack(record, [1, 2]).batch) is ObsBatch
    assert type(pad([ActBatch(act=np.arange(2)), ActBatch(act=np.arange(1))])) is ActBatch
    assert type(pad(SampleBatch(a=[1, 2, 3]), [1, 2])) is SampleBatch


def test_padding_shares_nothing():
    batch = rows(4)
    padded = pad(batch, [2, 2])
    padded.a[:] = 0
    padded.t[:] = 0
    assert batch.a.tolist() == batch.t.tolist() == [1, 2, 3, 4]


def test_a_distribution_is_padded_where_no_zeros_come():
    normal = torch.distributions.Normal(torch.arange(4.0), 1.0)
    assert pad(Batch(dist=normal), [2, 2]).dist.loc.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(RowIndexError, match=r"'inner\.dist': Normal\[4\] cannot be filled with zeros"):
        pad(Batch(inner={"dist": normal}), [1, 3])


@pytest.mark.parametrize("function", [starts, cu_seqlens, position_ids, sequence_ids, mask, lambda lens: chop(lens, 2)])
@pytest.mark.parametrize("lens", [[2**62] * 4, [2**63 - 1, 2**63 - 1, 2], [2**60]])
def test_lengths_that_no_array_has_place_for(function, lens):
    with pytest.raises(SizeError, match=f"lengths sum up to {sum(lens)} rows, and an array has {2**60 - 1} at most"):
        function(lens)


def test_sequences_side_by_side_that_no_array_has_place_for():
    for arguments in ({"length": 2**59}, {"length": 2**70}, {"multiple_of": 2**62}):
        with pytest.raises(
            SizeError, match=f"{next(iter(arguments))} must be {2**59 - 1} or less, the most that an array can hold"
        ):
            pad(Batch(a=[1, 2]), [1, 1], **arguments)
    with pytest.raises(SizeError, match=f"length must be {2**58 - 1} or less, .* got {2**58}"):
        mask([2**58, 0, 0, 0])


def test_a_size_beyond_all_sequences_chops_none():
    assert chop([5, 0, 6], 2**70).tolist() == [5, 6]


def test_nothing_is_padded():
    assert pad([]) == pad(Batch(), []) == Batch()
    assert pad(Batch(a=np.zeros((0, 2))), [0, 0], length=3).a.shape == (2, 3, 2)
    assert pad([Batch(a=[1]), Batch(), Batch(a=[2, 3])]).a.tolist() == [[1, 0], [0, 0], [2, 3]]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda b: pad(b, [1, 1]), StructureError, "sum to 2, but there are 3 rows"),
    (lambda b: cut(b, [4]), StructureError, "sum to 4, but there are 3 rows"),
    (lambda b: pack(b, [2]), StructureError, "sum to 2, but there are 3 rows"),
    (lambda b: pad(b, [1, 2], length=1), SizeError, r"has 2 rows, so it cannot be padded to 1; chop\(\)"),
    (lambda b: pad(b, [1, 2], side="up"), SizeError, "'right' or 'left', got 'up'"),
    (lambda b: pad(b, [[1, 2]]), SizeError, "whole numbers"),
    (lambda b: pad({"a": [1]}, [1]), LeafError, r"pad\(\) takes a Batch, got dict"),
    (lambda b: pad([b, {"a": [1]}]), LeafError, r"pad\(\) takes a Batch, got dict"),
    (lambda b: cut([b], [3]), LeafError, r"cut\(\) takes a Batch, got list"),
    (lambda b: pack(None, [3]), LeafError, r"pack\(\) takes a Batch, got None"),
    (lambda b: pad([b, Batch(z=[1])]), StructureError, "different fields"),
    (lambda b: pad(Batch(a=[1], b=[1, 2]), [1]), StructureError, "different lengths"),
    (lambda b: pad(Batch(a=1), [1]), NoLengthError, "'a': a scalar"),
    (lambda b: pack(b, [1, 0, 2]), SizeError, "sequence 1 has no rows"),
    (lambda b: pack(b, [1, 2]).unpack(b[:2]), StructureError, "3 rows were packed, got 2"),
    (lambda b: pack(b, [1, 2]).unpack({"a": [1]}), LeafError, r"unpack\(\) takes a Batch, got dict"),
    (lambda b: unpad(b, mask([1, 2])), RowIndexError, "'a'"),
    (lambda b: unpad(pad(b, [1, 2]), mask([1, 2, 2])), RowIndexError, "'a'"),
    (lambda b: unpad(pad(b, [1, 2]), np.full((2, 2), 2)), StructureError, "numbers other than 0 and 1 in it"),
    (lambda b: unpad(pad(b, [1, 2]), [1, 1]), StructureError, r"numbers 0 and 1, got int64\[2\]"),
    (lambda b: unpad(pad(b, [1, 2]), [True, False]), StructureError, r"got bool\[2\]"),
    (lambda b: unpad(pad(b, [1, 2]), [[True], [True, False]]), StructureError, r"\(E, T\) bools"),
    (
        lambda b: unpad(b, np.ma.masked_array([[True]], [[True]])),
        StructureError,
        "at every position, but some values are m",
    ),
    (
        lambda b: pad(b, np.ma.masked_array([1, 2], [0, 1])),
        SizeError,
        "lengths must be whole numbers, but some values are m",
    ),
    (lambda b: unpad({"a": [1]}, [[True]]), LeafError, r"unpad\(\) takes a Batch, got dict"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_is_refused(call, error, text):
    batch = rows(3)
    with pytest.raises(error, match=text):
        call(batch)
    assert_identical(batch, rows(3))


@given(SOME)
def test_pack_agrees_with_torch(lens):
    batch = rows(sum(lens))
    packed = pack(batch, lens)
    sequence = packed.sequence(packed.batch.t)
    expected = pack_sequence(list(batch.t.split(lens)), enforce_sorted=False)
    assert torch.equal(sequence.batch_sizes, expected.batch_sizes)
    padded, lengths = pad_packed_sequence(sequence, batch_first=True)
    assert torch.equal(padded, pad_packed_sequence(expected, batch_first=True)[0])
    assert lengths.tolist() == lens
    assert_identical(packed.unpack(), batch)


def test_a_network_goes_through_packed_rows_as_through_each_sequence():
    torch.manual_seed(0)
    network = torch.nn.GRU(2, 3)
    batch = Batch(x=torch.randn(6, 2, requires_grad=True))
    packed = pack(batch, [2, 3, 1])
    out, last = network(packed.sequence(packed.batch.x))
    result = packed.unpack(Batch(y=out.data))
    for number, part in enumerate(cut(batch, [2, 3, 1])):
        alone, state = network(part.x)
        assert torch.allclose(cut(result, [2, 3, 1])[number].y, alone, atol=1e-6)
        assert torch.allclose(last[:, number], state, atol=1e-6)
    result.y.sum().backward()
    assert batch.x.grad.abs().sum(1).gt(0).all()


def test_a_packed_sequence_shares_memory_and_is_not_of_other_rows():
    packed = pack(rows(3), [1, 2])
    assert packed.sequence(packed.batch.t).data is packed.batch.t
    with pytest.raises(StructureError):
        packed.sequence(torch.zeros(2))


def test_nothing_is_packed():
    packed = pack(Batch(a=np.zeros((0, 2))), [])
    assert packed.unpack().a.shape == (0, 2)
    assert packed.batch_sizes.shape == packed.sorted_indices.shape == (0,)
    assert pack(Batch(), []).unpack() == Batch()


def test_packed_rows_pickle():
    packed = pickle.loads(pickle.dumps(pack(rows(3), [1, 2])))
    assert_identical(packed.unpack(), rows(3))
