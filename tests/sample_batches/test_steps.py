"""Steps of a sample batch without sequences: taken, cut, joined, written, and refused."""

from __future__ import annotations

import copy
import pickle
from typing import Protocol

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.ops.helpers import assert_array, assert_identical
from tests.strategies import arrays, object_arrays, row_indices, tensors, trees
from typedbatch import Batch, BatchProtocol, SampleBatch, cat, conforms, stack, validate
from typedbatch.errors import (
    LeafError,
    MissingFieldError,
    NoLengthError,
    RowIndexError,
    SettingError,
    SizeError,
    StructureError,
)


class Trajectory(BatchProtocol, Protocol):
    obs: Batch
    actions: NDArray[np.integer]


def trajectory() -> SampleBatch:
    return SampleBatch(
        obs={"cam": np.arange(10.0).reshape(5, 2), "pos": torch.arange(5)}, actions=[0, 1, 2, 3, 4],
        infos=np.array(["a", "b", None, {1}, "e"], object), nothing=None, reserved=Batch(),
    )  # fmt: skip


def test_a_sample_batch_is_a_batch():
    batch = trajectory()
    assert isinstance(batch, Batch)
    assert batch.obs is batch["obs"]
    assert type(batch.obs) is Batch
    assert validate(batch, Trajectory) is batch
    assert not conforms(SampleBatch(actions=[0.5]), Trajectory)


def test_names_are_those_of_rllib():
    assert (SampleBatch.OBS, SampleBatch.NEXT_OBS, SampleBatch.ACTIONS) == ("obs", "new_obs", "actions")
    assert (SampleBatch.EPS_ID, SampleBatch.SEQ_LENS, SampleBatch.T) == ("eps_id", "seq_lens", "t")
    batch = SampleBatch({SampleBatch.OBS: [1], SampleBatch.T: [0]})
    assert list(batch.keys()) == ["obs", "t"]


@given(st.integers(1, 4), st.data())
def test_every_index_means_what_it_means_for_a_batch(rows, data):
    batch = data.draw(trees(arrays(rows) | tensors(rows) | object_arrays(rows) | st.none(), min_size=1))
    index = data.draw(row_indices(rows))
    taken = SampleBatch(batch)[index]
    assert type(taken) is SampleBatch
    assert taken == batch[index]
    assert list(taken.__dict__) == list(batch.__dict__)


def test_iteration_is_over_steps():
    steps = list(trajectory())
    assert [type(step) for step in steps] == [SampleBatch] * 5
    assert [step.actions for step in steps] == [0, 1, 2, 3, 4]
    assert list(SampleBatch()) == []


def test_slices_are_views_and_masks_are_copies():
    batch = trajectory()
    batch[1:3].actions[0] = 9
    batch[[True] * 5].actions[0] = 7
    assert batch.actions.tolist() == [0, 9, 2, 3, 4]


def test_none_and_reserved_fields_count_no_steps():
    assert len(trajectory()) == 5
    assert len(SampleBatch(a=None, b=Batch())) == 0
    assert len(SampleBatch()) == 0


def test_without_sequences_there_is_no_padding():
    batch = trajectory()
    assert (batch.max_seq_len, batch.zero_padded) == (None, False)


@pytest.mark.parametrize(
    ("start", "end", "actions"), [(0, 5, [0, 1, 2, 3, 4]), (3, 99, [3, 4]), (5, 9, []), (4, 2, [])]
)
def test_slice_ends_with_the_batch(start, end, actions):
    assert trajectory().slice(start, end).actions.tolist() == actions


def test_slice_in_front_of_the_first_step_is_zeros():
    part = trajectory().slice(-2, 1)
    assert_array(part.actions, [0, 0, 0])
    assert_array(part.infos, [None, None, "a"])
    assert part.obs.cam.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert torch.equal(part.obs.pos, torch.tensor([0, 0, 0]))
    assert (part.nothing, part.reserved) == (None, Batch())
    assert trajectory().slice(-2, 0).infos.tolist() == [None, None]


@given(st.integers(0, 7), st.integers(1, 9))
def test_time_slices_hold_every_step_once(rows, count):
    batch = SampleBatch(a=np.arange(rows), o=np.arange(rows).astype(object))
    for pieces in (batch.timeslices(size=count), batch.timeslices(num_slices=count)):
        assert [step for piece in pieces for step in piece.a.tolist()] == list(range(rows))
    assert all(len(piece) == count for piece in batch.timeslices(size=count)[:-1])
    sizes = [len(piece) for piece in batch.timeslices(num_slices=count)]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_split_is_that_of_batch():
    assert [len(piece) for piece in trajectory().split(2, shuffle=False)] == [2, 2, 1]
    assert [len(piece) for piece in trajectory().split(2, merge_last=True)] == [2, 3]
    assert {type(piece) for piece in trajectory().split(2)} == {SampleBatch}


def test_shuffle_leaves_the_old_arrays_alone_and_follows_the_seed():
    batch = SampleBatch(a=np.arange(9))
    old = batch.a
    assert batch.shuffle(rng=3) is batch
    assert batch.a.tolist() == np.random.default_rng(3).permutation(9).tolist()
    assert old.tolist() == list(range(9))


def test_shuffle_moves_nested_batches_that_others_hold_too():
    batch = SampleBatch(obs={"x": np.arange(9)}, a=np.arange(9))
    held = batch.obs
    batch.shuffle(rng=3)
    assert batch.obs.x.tolist() == batch.a.tolist()
    assert held is batch.obs


def test_cat_stack_and_rows_keep_the_class():
    batch = trajectory()
    joined = cat([batch[:2], batch[2:]])
    assert_identical(joined, batch)
    assert_identical(batch[:2].concat(batch[2:]), batch)
    assert type(stack(list(batch))) is SampleBatch
    assert_identical(stack([SampleBatch(a=1), SampleBatch(a=2)]), SampleBatch(a=[1, 2]))
    assert SampleBatch(SampleBatch(a=[1, 2], b=[3, 4]).to_list_of_dicts()) == SampleBatch(a=[1, 2], b=[3, 4])


def test_rows_are_dicts_all_the_way_down():
    row = next(trajectory().rows())
    assert type(row["obs"]) is dict
    assert (row["actions"], row["infos"], row["nothing"]) == (0, "a", None)
    assert row["obs"]["cam"].tolist() == [0, 1]


def test_pickles_and_copies():
    for back in (pickle.loads(pickle.dumps(trajectory())), copy.deepcopy(trajectory()), trajectory().copy()):
        assert_identical(back, trajectory())
    batch = trajectory()
    assert batch.copy(shallow=True).obs is not batch.obs
    assert copy.copy(batch).actions is batch.actions


def test_columns_are_shared():
    batch = trajectory()
    assert batch.columns(["infos"])[0] is batch.infos
    assert batch.columns([]) == []


def test_rows_are_written_as_in_a_batch():
    batch = SampleBatch(a=[1, 2, 3], b=[4, 5, 6])
    batch[1:] = {"a": 0, "b": 7}
    assert (batch.a.tolist(), batch.b.tolist()) == ([1, 0, 0], [4, 7, 7])
    batch.empty_(0)
    assert (batch.a.tolist(), batch.b.tolist()) == ([0, 0, 0], [0, 7, 7])


def test_episodes_by_flags_of_rllib_and_by_any_of_them():
    batch = SampleBatch(a=np.arange(4), terminateds=[0, 1, 0, 0], truncateds=torch.tensor([0, 0, 1, 0]))
    assert [piece.a.tolist() for piece in batch.split_by_episode()] == [[0, 1], [2], [3]]
    assert [piece.a.tolist() for piece in batch.split_by_episode("truncateds")] == [[0, 1, 2], [3]]


def test_episodes_that_stand_together_are_views():
    batch = SampleBatch(a=np.arange(4), eps_id=[7, 7, 3, 3])
    pieces = batch.split_by_episode()
    assert all(np.shares_memory(piece.a, batch.a) for piece in pieces)
    assert [piece.eps_id.tolist() for piece in pieces] == [[7, 7], [3, 3]]


@given(st.lists(st.sampled_from(["x", "y", "z", None]), max_size=8))
def test_episodes_of_any_ids_are_those_of_a_naive_loop(ids):
    batch = SampleBatch(a=np.arange(len(ids)), eps_id=np.array(ids, object))
    found: dict = {}
    for row, name in enumerate(ids):
        found.setdefault(name, []).append(row)
    assert [piece.a.tolist() for piece in batch.split_by_episode()] == list(found.values())


def test_size_bytes_of_objects_is_what_python_says():
    batch = SampleBatch(a=np.zeros(3), text="some text", nothing=None)
    assert batch.size_bytes() > 24
    assert SampleBatch().size_bytes() == 0


REFUSED = [
    (lambda b: b[5], RowIndexError, "out of bounds"),
    (lambda b: b[[0, 5]], RowIndexError, "out of bounds"),
    (lambda b: b["act"], MissingFieldError, "did you mean 'actions'"),
    (lambda b: b.columns(["actions", "act"]), MissingFieldError, "no field 'act'"),
    (lambda b: b.concat({"a": [1]}), LeafError, "takes a SampleBatch, got dict"),
    (lambda b: b.concat(Batch(b)), LeafError, "takes a SampleBatch, got Batch"),
    (lambda b: b.slice(0, -1), SizeError, "got -1"),
    (lambda b: b.slice(0, 2, 0, 1), StructureError, "seq_lens"),
    (lambda b: b.slice(0, 2, state_start=0), StructureError, "together"),
    (lambda b: b.timeslices(), SettingError, "either size or num_slices"),
    (lambda b: b.timeslices(2, 2), SettingError, "either size or num_slices"),
    (lambda b: b.timeslices(0), SizeError, "1 or more, got 0"),
    (lambda b: b.timeslices(num_slices=-1), SizeError, "-1"),
    (lambda b: b.split_by_episode(), MissingFieldError, "eps_id or terminated"),
    (lambda b: b.split_by_episode("nope"), MissingFieldError, "nope"),
    (lambda b: b.split_by_episode("obs"), StructureError, "one value for each of 5 rows"),
    (lambda b: b.right_zero_pad(3), StructureError, "needs a batch with seq_lens"),
    (lambda b: b.to_device("cpu", "jax"), SettingError, "only framework='torch', got 'jax'"),
    (lambda b: list(b.split(0)), SizeError, "got 0"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[f"{e.__name__}: {t}" for _, e, t in REFUSED])
def test_what_is_refused_changes_nothing(call, error, text):
    batch = trajectory()
    with pytest.raises(error, match=text):
        call(batch)
    assert_identical(batch, trajectory())


COUNTING = {
    "len": len, "iter": list, "rows": lambda b: list(b.rows()), "slice": lambda b: b.slice(0, 1),
    "timeslices": lambda b: b.timeslices(1), "shuffle": lambda b: b.shuffle(),
    "split": lambda b: list(b.split(1, shuffle=False)), "shuffled split": lambda b: list(b.split(1)),
    "as_multi_agent": lambda b: b.as_multi_agent(), "split_by_episode": lambda b: b.split_by_episode("a"),
}  # fmt: skip


@pytest.mark.parametrize("call", COUNTING.values(), ids=COUNTING)
def test_columns_of_different_lengths_lose_no_row(call):
    batch = SampleBatch(a=[1, 2, 3], b={"c": [1, 2]})
    with pytest.raises(StructureError, match="a has 3, others 2"):
        call(batch)
    assert batch.a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("call", [c for n, c in COUNTING.items() if n != "as_multi_agent"])
def test_a_scalar_column_has_no_steps(call):
    with pytest.raises((NoLengthError, StructureError), match=r"scalar|one value for each"):
        call(SampleBatch(a=5))


WRONG_NUMBERS = {
    "slice from None": lambda b: b.slice(None, 2),
    "slice from text": lambda b: b.slice("0", 2),
    "slice to half": lambda b: b.slice(0, 1.5),
    "timeslices of half": lambda b: b.timeslices(1.5),
    "timeslices of text": lambda b: b.timeslices("2"),
}


@pytest.mark.parametrize("call", WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_numbers_that_are_none_are_errors_of_this_library(call):
    with pytest.raises((SizeError, RowIndexError, SettingError)):
        call(trajectory())
