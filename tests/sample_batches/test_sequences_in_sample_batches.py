"""Sample batches with ``seq_lens``: sequences and their states when steps are taken, cut, padded and joined."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.ops.helpers import assert_identical
from typedbatch import Batch, SampleBatch, cat, stack
from typedbatch.errors import RowIndexError, SizeError, StructureError

LENS = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def recurrent(lens: Any = (2, 3, 1), tensors: bool = False) -> SampleBatch:
    """Sequence ``i`` has the state ``10 * i``; step ``n`` has ``a == n + 1``."""
    steps, count = int(np.sum(lens)), len(lens)
    batch = SampleBatch(
        a=np.arange(1, steps + 1),
        obs={"x": np.arange(1.0, steps + 1)[:, None], "o": np.array([f"o{i}" for i in range(steps)], object)},
        state_in_0=10 * np.arange(count),
        state_out_1={"h": 10 * np.arange(count)},
        per_step=100 * np.repeat(np.arange(count), lens),
        seq_lens=np.array(lens, np.int32),
        nothing=None,
        reserved=Batch(),
    )
    return batch.to_device("cpu") if tensors else batch


def flat_form(batch: SampleBatch) -> tuple[list, list, list]:
    return (batch.a.tolist(), batch.seq_lens.tolist(), batch.state_in_0.tolist())


def model_slice(lens: list[int], start: int, stop: int) -> tuple[list, list, list]:
    """Return the contents of a slice, by a loop over the steps."""
    steps, cut, states, n = [], [], [], 0
    for number, length in enumerate(lens):
        inside = [n + i for i in range(length) if start <= n + i < stop]
        n += length
        if inside:
            steps += [i + 1 for i in inside]
            cut.append(len(inside))
            states.append(10 * number)
    return steps, cut, states


def test_steps_are_counted_without_padding():
    batch = recurrent()
    assert (len(batch), batch.max_seq_len, batch.zero_padded) == (6, 3, False)
    batch.right_zero_pad(4)
    assert (len(batch), batch.max_seq_len, batch.zero_padded) == (6, 4, True)
    assert (batch.count, batch.agent_steps(), batch.env_steps()) == (6, 6, 6)


def test_seq_lens_alone_have_steps():
    assert len(SampleBatch(seq_lens=[2, 3])) == 5
    assert SampleBatch(seq_lens=[2, 3])[1:4].seq_lens.tolist() == [1, 2]


def test_columns_that_hold_nothing_do_not_matter():
    batch = SampleBatch(a=None, b=Batch(), seq_lens=[2, 3])
    assert len(batch) == 5


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"a": [1, 2, 3], "seq_lens": [1, 1]}, "sum to 2, but there are 3 rows"),
        ({"a": [1, 2], "seq_lens": [3, 1]}, "sum to 4, but there are 2 rows"),
        ({"a": [1, 2, 3], "b": [1, 2], "seq_lens": [1, 2]}, "different lengths"),
        ({"a": [1, 2, 3], "state_in_0": [1, 2, 3, 4], "seq_lens": [1, 2]}, "different lengths"),
        ({"a": [1, 2, 3], "seq_lens": [1.5, 1.5]}, "whole numbers"),
        ({"a": [1, 2, 3], "seq_lens": [4, -1]}, "whole numbers"),
        ({"a": [1, 2, 3], "seq_lens": [[1, 2]]}, "one dimension"),
        ({"a": [1, 2, 3], "seq_lens": [True, True]}, "whole numbers"),
        ({"a": [1], "seq_lens": np.array([2**63], np.uint64)}, "seq_lens"),
    ],
)
def test_lengths_that_do_not_fit(fields, text):
    with pytest.raises((StructureError, SizeError), match=text):
        len(SampleBatch(fields))


def test_a_scalar_state_is_named():
    with pytest.raises(TypeError, match=r"field 'state_in_0'.*scalar"):
        len(SampleBatch(a=[1, 2], state_in_0=5, seq_lens=[1, 1]))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("tensors", [False, True])
@given(lens=LENS, data=st.data())
def test_slices_are_those_of_a_naive_loop(lens, data, tensors, padded):
    batch = recurrent(lens, tensors)
    if padded:
        batch.right_zero_pad(5)
    start, stop = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    for part in (batch[start:stop], batch.slice(start, stop)):
        assert flat_form(part) == model_slice(lens, start, stop)
        assert part.obs.x.ravel().tolist() == part.a.tolist()
        assert part.state_out_1.h.tolist() == part.state_in_0.tolist()
        assert type(part.seq_lens) is type(batch.seq_lens)
        assert part.seq_lens.dtype == batch.seq_lens.dtype


@given(lens=LENS, data=st.data())
def test_single_steps_are_sequences_of_one_beside_their_state(lens, data):
    steps = sum(lens)
    numbers = data.draw(st.lists(st.integers(-steps, steps - 1), max_size=6))
    batch = recurrent(lens)
    kinds = [numbers, np.array(numbers, np.int64), torch.tensor(numbers, dtype=torch.int64)]
    for part in (batch[index] for index in kinds):
        assert part.a.tolist() == (np.arange(1, steps + 1)[kinds[1]]).tolist()
        assert part.seq_lens.tolist() == [1] * len(numbers)
        assert part.per_step.tolist() == [10 * state for state in part.state_in_0.tolist()]


@given(lens=LENS, data=st.data())
def test_masks_and_steps_of_slices_are_numbers(lens, data):
    batch, steps = recurrent(lens), sum(lens)
    mask = data.draw(npst.arrays(bool, steps))
    for index in (mask, mask.tolist(), torch.from_numpy(mask)):
        assert_identical(batch[index], batch[np.flatnonzero(mask)])
    part = data.draw(st.slices(steps).filter(lambda part: part.step not in (None, 1)))
    assert_identical(batch[part], batch[np.arange(steps)[part]])


@pytest.mark.parametrize("row", [3, -3, np.int64(3), torch.tensor(3), np.array(3)], ids=repr)
def test_one_step(row):
    step = recurrent()[row]
    assert (step.a, step.seq_lens, step.state_in_0, step.obs.o) == (4, 1, 10, "o3")
    assert step.seq_lens.dtype == np.int32


def test_a_step_of_seq_lens_alone():
    assert SampleBatch(seq_lens=[2, 3])[3].seq_lens == 1
    assert SampleBatch(seq_lens=[2, 3], state_in_0=[4, 5])[[0, 4]].state_in_0.tolist() == [4, 5]


def test_states_with_a_row_per_step_go_with_the_steps():
    batch = SampleBatch(a=[1, 2, 3], state_in_0=[10, 11, 20], seq_lens=[2, 1])
    assert batch[1:].state_in_0.tolist() == [11, 20]
    assert batch[[1]].state_in_0.tolist() == [11]
    assert batch.right_zero_pad(2).state_in_0.tolist() == [10, 11, 20, 0]


def test_everything_is_everything():
    assert_identical(recurrent()[:], recurrent())
    assert_identical(recurrent()[...], recurrent())


def test_sequences_without_steps_stay_in_a_whole_slice():
    assert_identical(recurrent([0, 2, 0, 1, 0])[:], recurrent([0, 2, 0, 1, 0]))


def test_sequences_without_steps_are_told_from_their_neighbours():
    batch = recurrent([0, 2, 0, 1])
    assert [int(step.state_in_0) for step in batch] == [10, 10, 30]
    assert flat_form(batch[1:3]) == ([2, 3], [1, 0, 1], [10, 20, 30])


def test_slices_of_what_is_not_padded_are_views():
    batch = recurrent()
    part = batch[1:4]
    assert np.shares_memory(part.a, batch.a)
    assert np.shares_memory(part.state_in_0, batch.state_in_0)
    assert not np.shares_memory(part.seq_lens, batch.seq_lens)


REFUSED_INDICES = [6, -7, [0, 6], [True], [[0, 1]], (0,), None, 1.5, [0.5], "nope", slice(0.5, 2), slice(0, 3, 0)]


@pytest.mark.parametrize("index", REFUSED_INDICES, ids=repr)
def test_an_index_of_no_steps(index):
    batch = recurrent()
    with pytest.raises((RowIndexError, KeyError)):
        batch[index]
    assert_identical(batch, recurrent())


@given(LENS, st.integers(1, 7))
def test_pieces_hold_every_step_once(lens, size):
    batch = recurrent(lens)
    for pieces in (
        list(batch.split(size, shuffle=False)),
        batch.timeslices(size=size),
        batch.timeslices(num_slices=size),
    ):
        assert cat(pieces).a.tolist() == batch.a.tolist()
        assert all(
            piece.per_step.tolist() == np.repeat(10 * piece.state_in_0, piece.seq_lens).tolist() for piece in pieces
        )


@pytest.mark.parametrize(
    ("size", "merge_last", "sizes"), [(4, False, [4, 2]), (4, True, [6]), (-1, False, [6]), (9, False, [6])]
)
def test_split_in_order(size, merge_last, sizes):
    pieces = list(recurrent().split(size, shuffle=False, merge_last=merge_last))
    assert [len(piece) for piece in pieces] == sizes


@pytest.mark.parametrize("size", [0, -2, 1.5, "2"])
def test_split_refuses_what_it_refuses_without_sequences(size):
    with pytest.raises(SizeError, match="number of rows"):
        recurrent().split(size, shuffle=False)


def test_split_is_not_shuffled():
    with pytest.raises(StructureError, match=r"split\(size, shuffle=False\)"):
        recurrent().split(2)


def test_concat_and_cat_put_sequences_behind_each_other():
    for joined in (recurrent([2, 1]).concat(recurrent([3])), cat([recurrent([2, 1]), recurrent([3])])):
        assert flat_form(joined) == ([1, 2, 3, 1, 2, 3], [2, 1, 3], [0, 10, 0])
        assert len(joined) == 6


def test_concat_of_the_same_padding():
    one, two = recurrent([2, 1]).right_zero_pad(3), recurrent([3]).right_zero_pad(3)
    joined = one.concat(two)
    assert (len(joined), joined.max_seq_len, joined.a.tolist()) == (6, 3, [1, 2, 0, 3, 0, 0, 1, 2, 3])


def test_concat_with_no_sequences_at_all():
    padded = recurrent([1, 2]).right_zero_pad(3)
    assert len(recurrent()[0:0].concat(padded)) == 3


def test_cat_of_different_paddings_does_not_mix_steps_and_zeros():
    one, two = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2]), SampleBatch(a=[7], seq_lens=[1]).right_zero_pad(3)
    try:
        joined = cat([one, two])
        steps = [int(step.a) for step in joined]
    except StructureError:
        return
    assert steps == [1, 2, 3, 7]


def test_stack_of_steps_is_a_batch_of_sequences_of_one():
    batch = recurrent()
    del batch["nothing"]
    assert_identical(stack([batch[0], batch[5]]), batch[[0, 5]])


def test_pickles_and_copies():
    for batch in (recurrent(), recurrent().right_zero_pad(4), recurrent(tensors=True)):
        for back in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), batch.copy(), batch.copy(shallow=True)):
            assert_identical(back, batch)
            assert (len(back), back.max_seq_len) == (6, batch.max_seq_len)


def test_episodes_cut_sequences():
    batch = recurrent()
    batch.eps_id = [1, 1, 1, 2, 2, 1]
    assert [flat_form(piece) for piece in batch.split_by_episode()] == [
        ([1, 2, 3, 6], [2, 1, 1], [0, 10, 20]),
        ([4, 5], [2], [10]),
    ]


@given(LENS, st.integers(0, 3), st.booleans(), st.booleans())
def test_padding_comes_off_again(lens, more, tensors, states_too):
    batch = recurrent(lens, tensors)
    padded = batch.copy().right_zero_pad(max(lens) + more, exclude_states=not states_too)
    assert len(padded) == len(batch)
    expected, first = [], 1
    for length in lens:
        expected += [*range(first, first + length), *[0] * (padded.max_seq_len - length)]
        first += length
    assert padded.max_seq_len == max(lens) + more
    assert padded.a.tolist() == expected
    back = padded[:]
    assert_identical(back.obs, batch.obs)
    assert torch.equal(torch.as_tensor(back.seq_lens), torch.as_tensor(batch.seq_lens))


def test_gradients_flow_through_padding():
    a = torch.arange(3.0, requires_grad=True)
    batch = SampleBatch(a=a, seq_lens=torch.tensor([1, 2])).right_zero_pad(3)
    (batch.a * torch.arange(6.0)).sum().backward()
    assert a.grad.tolist() == [0, 3, 4]


@pytest.mark.parametrize("length", [2, -1, 3.5, "3"])
def test_a_padding_that_is_none(length):
    batch = recurrent()
    with pytest.raises(SizeError):
        batch.right_zero_pad(length)
    assert_identical(batch, recurrent())


def test_distributions_cannot_be_padded_and_nothing_changes():
    batch = SampleBatch(a=[1, 2, 3], dist=torch.distributions.Normal(torch.zeros(3), 1.0), seq_lens=[1, 2])
    with pytest.raises(RowIndexError, match=r"'dist'.*cannot be filled with zeros"):
        batch.right_zero_pad(2)
    assert batch.a.tolist() == [1, 2, 3]
    assert batch[1:].dist.loc.shape == (2,)


def test_zeros_in_front_lengthen_the_first_sequence():
    part = recurrent().slice(-2, 3)
    assert flat_form(part) == ([0, 0, 1, 2, 3], [4, 1], [0, 10])
    assert flat_form(recurrent().slice(-2, 0)) == ([0, 0], [2], [0])


def test_zeros_in_front_do_not_overflow_small_lengths():
    part = SampleBatch(a=np.arange(100), seq_lens=np.array([100], np.int8)).slice(-100, 100)
    assert len(part) == 200


def test_given_states_must_be_those_of_the_steps():
    batch = recurrent()
    assert flat_form(batch.slice(2, 4, 1, 2)) == ([3, 4], [2], [10])
    with pytest.raises(StructureError, match="sequences"):
        batch.slice(2, 4, 0, 1)


WRITES = {
    "set_rows": lambda b: b.set_rows(0, {"a": 1}),
    "item": lambda b: b.__setitem__(0, {"a": 1}),
    "empty_": lambda b: b.empty_(0),
    "set_array_at_key": lambda b: b.set_array_at_key(np.arange(6), "z"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_rows_are_not_written_where_there_are_sequences(write):
    batch = recurrent()
    with pytest.raises(StructureError, match="set a column instead"):
        write(batch)
    assert_identical(batch, recurrent())
