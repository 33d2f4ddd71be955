"""Columns of a buffer: set as a whole or in some slots, put aside and back, and never shared with what was given."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from tests.buffers.helpers import (
    BUFFERS,
    assert_same,
    assert_untouched,
    contents,
    every_buffer,
    every_store,
    holding,
    ids_for,
    made,
    row,
    rows_for,
    transition,
    transitions,
)
from typedbatch import Batch, errors
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer, compute_nstep_return
from typedbatch.errors import RowAssignmentError


def full_rows(count: int) -> Batch:
    rows = transitions(np.arange(count), done=np.arange(count) == 1)
    rows.terminated[1] = True
    return rows


@every_buffer
def test_a_whole_batch_is_copied_into_the_buffer(name):
    buffer = BUFFERS[name]()
    rows = rows_for(name, np.arange(8.0))
    before = pickle.dumps(rows)
    buffer.set_batch(rows)
    assert len(buffer) == 8
    buffer.add(rows_for(name, [50, 60]), buffer_ids=ids_for(name))
    buffer.sample(8)
    buffer.columns.rew[:] = 0.0
    assert_untouched(rows, before)
    rows.act[:] = 99
    assert 99 not in buffer.act


@pytest.mark.parametrize("wrong", [0, 3, 9])
def test_a_batch_of_another_length_is_refused_and_changes_nothing(wrong):
    buffer = holding("ring")
    before = contents(buffer)
    with pytest.raises(errors.SizeError):
        buffer.set_batch(full_rows(wrong) if wrong else transitions([]))
    assert_same(contents(buffer), before)


def test_a_buffer_of_given_arrays_shares_no_memory_with_them():
    rows = full_rows(5)
    before = pickle.dumps(rows)
    given = {name: rows[name] for name in ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next")}
    buffer = ReplayBuffer.from_data(**given)
    assert (len(buffer), buffer.maxsize) == (5, 5)
    assert buffer[:].act.tolist() == list(range(5))
    buffer.add(transition(50))
    assert_untouched(rows, before)
    assert not any(np.shares_memory(value, getattr(buffer, name)) for name, value in given.items())
    with pytest.raises(errors.SizeError):
        ReplayBuffer.from_data(**{**given, "rew": np.zeros(4)})


def test_values_are_copied_when_a_field_is_set():
    buffer = holding("ring", 4)
    values = np.arange(8.0)
    buffer.set_array_at_key(values, "extra")
    buffer.set_array_at_key(values[:2], "rew", index=[1, 2])
    buffer.extra[:] = -1
    buffer.rew[:] = -1
    assert values.tolist() == list(range(8))
    values[:] = 99
    assert buffer.extra.tolist() == buffer.rew.tolist() == [-1] * 8


def test_a_field_is_set_in_some_slots_with_a_default_for_others():
    buffer = holding("ring", 2)
    buffer.set_array_at_key(np.array([5, 6]), "extra", index=[0, 2], default_value=-1)
    assert buffer.extra.tolist() == [5, -1, 6, -1, -1, -1, -1, -1]
    assert buffer[[2, 1]].extra.tolist() == [6, -1]
    with pytest.raises(errors.RowAssignmentError):
        buffer.set_array_at_key(np.array([0.5]), "act", index=[0])
    with pytest.raises(errors.StructureError, match="extra"):
        buffer.set_array_at_key(np.arange(3), "extra")
    assert buffer.extra.tolist() == [5, -1, 6, -1, -1, -1, -1, -1]


def test_no_field_can_be_set_before_there_are_columns_and_vector_rewards_are_summed():
    buffer = ReplayBuffer(3)
    with pytest.raises(errors.EmptyBufferError):
        buffer.set_array_at_key(np.arange(3), "extra")
    buffer.add(transition(0, rew=np.array([1.0, 2.0])))
    added = buffer.add(transition(1, terminated=True, rew=np.array([1.0, 2.0])))
    assert added.ep_return.tolist() == [[2.0, 4.0]]


def test_columns_cannot_be_assigned_to():
    buffer = holding("ring")
    for name in ("obs", "act", "rew", "done", "info"):
        with pytest.raises(errors.FieldNameError, match=name):
            setattr(buffer, name, np.zeros(8))
    assert buffer[0].act == 0


def test_in_a_batch_that_was_set_the_episode_that_goes_on_begins_where_its_rows_do():
    buffer = ReplayBuffer(4)
    buffer.set_batch(transitions(range(4), terminated=np.array([False, True, False, False])))
    assert buffer.add(transition(4)).ep_start.tolist() == [2]


HIDDEN = np.ma.array([1.0, 1e20], mask=[False, True])


def test_stored_rows_without_a_value_are_missing() -> None:
    buffer = ReplayBuffer(4)
    for number in range(3):
        buffer.add(transition(number))
    buffer.set_array_at_key(np.array([0.5, 0.7]), "label", [0, 2])
    np.testing.assert_array_equal(buffer[:].label, [0.5, np.nan, 0.7])
    assert buffer.hasnull()
    buffer.dropnull()
    assert buffer[:].label.tolist() == [0.5, 0.7]


def test_integers_need_a_value_for_every_stored_row() -> None:
    buffer = ReplayBuffer(4)
    for number in range(2):
        buffer.add(transition(number))
    with pytest.raises(RowAssignmentError, match=r"field 'kind': 1 of 2 rows get no value.*default_value="):
        buffer.set_array_at_key(np.array([5]), "kind", [1])
    assert "kind" not in buffer[:]
    buffer.set_array_at_key(np.array([5, 6]), "kind", [0, 1])
    buffer.set_array_at_key(np.array([5]), "other", [1], default_value=-1)
    assert (buffer[:].kind.tolist(), buffer[:].other.tolist()) == ([5, 6], [-1, 5])
    with pytest.raises(RowAssignmentError, match="field 'x': some values are masked"):
        buffer.set_array_at_key(HIDDEN, "x", [0, 1])


def filled(buffer: Any, count: int = 4, rew: Any = 1.0) -> Any:
    for number in range(count):
        buffer.add(row(number, rew))
    return buffer


def test_the_columns_are_a_batch_of_what_is_stored_and_live():
    buffer = filled(ReplayBuffer(4))
    assert isinstance(buffer.columns, Batch)
    assert buffer.columns.act is buffer.act
    assert buffer._meta == buffer.columns
    assert list(buffer._meta.get_keys()) == ["obs", "act", "rew", "terminated", "truncated", "done", "obs_next"]
    assert (buffer._size, buffer._indices.tolist()) == (4, [0, 1, 2, 3])
    buffer.columns.act[0] = 9
    buffer.add(row(7))
    assert buffer.act.tolist() == buffer._meta.act.tolist() == [7, 1, 2, 3]
    assert pickle.loads(pickle.dumps(buffer.columns)) == copy.deepcopy(buffer.columns) == buffer.columns


def test_a_column_is_put_aside_and_back_as_for_several_agents():
    buffer = filled(ReplayBuffer(4), rew=np.array([1.0, 10.0]))
    batch, slots = buffer.sample(0)
    kept, buffer._meta.rew = buffer.rew, Batch()
    for agent, expected in enumerate([3.0, 30.0]):
        buffer._meta.rew = kept[:, agent]
        batch.rew = kept[:, agent]
        returns = compute_nstep_return(batch, buffer, slots, lambda _, at: np.zeros(len(at)), 1.0, 3).returns
        assert returns[0] == expected
    buffer._meta.rew = kept
    buffer.add(row(5, np.array([2.0, 20.0])))
    assert buffer[:].rew[-1].tolist() == [2, 20]


def test_a_column_is_added_as_for_calibrated_returns(tmp_path):
    for buffer in (filled(ReplayBuffer(4)), filled(ReplayBuffer(4, path=tmp_path / "b"))):
        buffer._meta = Batch(**buffer._meta.__dict__, calibration_returns=np.arange(4.0))
        assert buffer.sample(0)[0].calibration_returns.tolist() == [0, 1, 2, 3]
    buffer.close()
    assert ReplayBuffer.open(tmp_path / "b", "r")[:].calibration_returns.tolist() == [0, 1, 2, 3]


def test_a_replaced_column_takes_the_rows_that_are_added_then():
    buffer = filled(VectorReplayBuffer(4, 2), 0)
    for number in range(2):
        buffer.add(Batch.stack([row(number), row(10 + number)]))
    first = buffer.buffers[0]
    buffer.columns.act = np.array([5, 6, 7, 8])
    assert first.act.tolist() == [5, 6]
    buffer.add(Batch.stack([row(3), row(4)]))
    assert buffer.act.tolist() == [3, 6, 4, 8]
    assert first.act.tolist() == [3, 6]


REFUSED: dict[str, Any] = {
    "rows": lambda buffer: setattr(buffer.columns, "act", np.zeros(3)),
    "no rows": lambda buffer: setattr(buffer.columns, "act", 5),
    "unknown": lambda buffer: setattr(buffer.columns, "actt", np.zeros(4)),
    "by slots": lambda buffer: buffer.columns.__setitem__(0, row(1)),
    "no batch": lambda buffer: setattr(buffer, "_meta", {"act": np.zeros(4)}),
    "too few": lambda buffer: setattr(buffer, "_meta", Batch(act=np.zeros(4))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_cannot_be_are_refused_and_nothing_changes(what):
    buffer = filled(ReplayBuffer(4))
    before = buffer[:]
    with pytest.raises((errors.StructureError, errors.LeafError, errors.RowAssignmentError)):
        REFUSED[what](buffer)
    assert buffer[:] == before


def test_columns_on_disk_and_those_of_a_ring_stay_where_they_are(tmp_path):
    buffer = filled(ReplayBuffer(4, path=tmp_path))
    with pytest.raises(errors.StorageError, match=r"set_array_at_key\(\) writes into them"):
        buffer.columns.act = np.zeros(4)
    ring = VectorReplayBuffer(4, 2)
    ring.add(Batch.stack([row(0), row(1)]))
    with pytest.raises(errors.StructureError, match="replacing column 'act' is not possible in a ring of a"):
        ring.buffers[0].columns.act = np.zeros(2)


CHANGES: dict[str, Any] = {
    "setattr": lambda tree, name, new: setattr(tree, name, new),
    "setitem": lambda tree, name, new: tree.__setitem__(name, new),
    "update": lambda tree, name, new: tree.update({name: new}),
    "keywords": lambda tree, name, new: tree.update(**{name: new}),
    "set_array_at_key": lambda tree, name, new: tree.set_array_at_key(new, name),
    "set_rows_at_key": lambda tree, name, new: tree.set_array_at_key(new[:2], name, [0, 1]),
    "setstate": lambda tree, name, new: tree.__setstate__({name: new}),
    "init": lambda tree, name, new: tree.__init__({name: new}),
    "unbound": lambda tree, name, new: Batch.update(tree, {name: new}),
    "fields": lambda tree, name, new: tree.__dict__.__setitem__(name, new),
    "to_torch_": lambda tree, name, new: tree.to_torch_(),
    "to_numpy_": lambda tree, name, new: tree.to_numpy_(),
    "transform": lambda tree, name, new: tree.apply_values_transform(lambda leaf: leaf + leaf, inplace=True),
    "cat_": lambda tree, name, new: tree.cat_([tree.copy()]),
    "stack_": lambda tree, name, new: tree.stack_([tree.copy()]),
    "add": lambda tree, name, new: tree.__iadd__(1),
    "add to field": lambda tree, name, new: exec(f"tree.{name} += 1"),
    "empty_": lambda tree, name, new: tree.empty_(),
    "empty rows": lambda tree, name, new: tree.empty_([0]),
    "rows": lambda tree, name, new: tree.__setitem__([0], tree.copy()[[1]]),
    "set_rows": lambda tree, name, new: tree.set_rows(slice(None), tree.copy()),
    "pop": lambda tree, name, new: tree.pop(name),
    "pop default": lambda tree, name, new: tree.pop(name, None),
    "pop other": lambda tree, name, new: tree.pop("other", None),
    "popitem": lambda tree, name, new: tree.popitem(),
    "del": lambda tree, name, new: tree.__delitem__(name),
    "delattr": lambda tree, name, new: delattr(tree, name),
    "clear": lambda tree, name, new: tree.clear(),
    "setdefault": lambda tree, name, new: tree.setdefault("other", new),
    "wrong rows": lambda tree, name, new: tree.update({name: new, "other": new}),
    "read-only": lambda tree, name, new: tree.update({name: np.broadcast_to(np.zeros(1), new.shape)}),
}
NESTED = {
    "columns": lambda buffer: getattr(buffer, "columns", buffer),
    "obs": lambda buffer: buffer.obs,
    "info": lambda buffer: buffer.info,
}


@pytest.mark.parametrize("where", NESTED)
@every_store
def test_a_column_is_replaced_so_that_later_rows_land_in_it_or_not_at_all(name, where, tmp_path):
    plain = name.removesuffix(" on disk")
    field = {"columns": "act", "obs": "achieved_goal" if plain.startswith("hindsight") else "x", "info": "t"}[where]
    for way, change in CHANGES.items():
        buffer = made(name, tmp_path / way)

        def add(number: int, buffer: Any = buffer) -> Any:
            rows = rows_for(plain, [number, number])
            if not plain.startswith("hindsight"):
                rows.obs = rows.obs_next = {"x": rows.obs[:, 0]}
            return buffer.add(rows, buffer_ids=ids_for(plain)).slots

        add(1)
        before, tree = pickle.dumps(buffer[:]), NESTED[where](buffer)
        try:
            change(tree, field, np.zeros_like(tree[field]) + 7)
        except errors.TypedBatchError:
            assert pickle.loads(before) == buffer[:], way
        assert NESTED[where](buffer) == tree, way
        slots = add(40)
        assert (np.asarray(NESTED[where](buffer)[field])[slots] == 40).all(), way
        assert (np.asarray(NESTED[where](buffer[:])[field]) == 40).sum() == 2, way
        assert pickle.loads(pickle.dumps(buffer.columns)) == buffer.columns, way
        np.testing.assert_array_equal(buffer.done, buffer.terminated | buffer.truncated)


@every_store
def test_flags_are_read_only_and_a_method_ends_the_episodes(name, tmp_path):
    buffer, plain = made(name, tmp_path), name.removesuffix(" on disk")
    buffer.truncate_episodes()
    buffer.add(rows_for(plain, [1, 2]), buffer_ids=ids_for(plain))
    for flag in ("terminated", "truncated", "done"):
        for handed in (getattr(buffer, flag), buffer.columns[flag], buffer.buffers[0].truncated):
            with pytest.raises(ValueError, match="read-only"):
                handed[0] = True
        with pytest.raises(errors.FieldNameError, match=r"marks where episodes end.*truncate_episodes\(\) ends them"):
            buffer.columns.update({flag: ~buffer.columns[flag]})
    open_episodes = len(buffer.unfinished_index())
    with pytest.raises(errors.StructureError, match="there are rings"):
        buffer.truncate_episodes([9])
    buffer.truncate_episodes([0])
    assert len(buffer.unfinished_index()) == open_episodes - 1
    buffer.truncate_episodes()
    again = buffer[:]
    assert not len(buffer.unfinished_index())
    assert again.truncated.sum() == again.done.sum() == open_episodes
    buffer.truncate_episodes()
    assert buffer[:] == again
    added = buffer.add(rows_for(plain, [3, 4], terminated=True), buffer_ids=ids_for(plain))
    assert set(added.ep_len.tolist()) == {1}
    assert buffer[:].truncated.sum() == open_episodes
    buffer.reset(keep_statistics=True)
    buffer.truncate_episodes()
    assert set(buffer.add(rows_for(plain, [5, 6], terminated=True), buffer_ids=ids_for(plain)).ep_len.tolist()) == {1}


def test_the_end_of_an_episode_is_on_disk_and_in_a_ring_alone(tmp_path):
    buffer = filled(VectorReplayBuffer(8, 2, path=tmp_path), 0)
    buffer.add(Batch.stack([row(1), row(2)]))
    buffer.buffers[1].truncate_episodes()
    buffer.close()
    again = VectorReplayBuffer.open(tmp_path)
    assert (again.unfinished_index().tolist(), again[:].truncated.tolist()) == ([0], [False, True])
    with pytest.raises(errors.StorageError, match=r"truncate_episodes\(\) changes the buffer"):
        VectorReplayBuffer.open(tmp_path, "r").truncate_episodes()


def test_flags_that_are_tensors_are_copies():
    buffer = ReplayBuffer(4)
    buffer.add(row(0, terminated=torch.tensor(False), truncated=torch.tensor(False)))
    buffer.truncated[0] = True
    assert not buffer[:].truncated.any()
    buffer._meta = buffer._meta
    buffer.truncate_episodes()
    assert (buffer[:].truncated.tolist(), buffer.done.tolist()) == ([True], [True, False, False, False])


def test_a_field_of_a_buffer_is_changed_in_place_as_an_array_is():
    buffer = filled(ReplayBuffer(4))
    buffer.rew *= 2
    buffer.columns.rew += 1
    assert buffer[:].rew.tolist() == [3.0] * 4
    with pytest.raises(errors.FieldNameError, match="set_array_at_key"):
        buffer.rew = buffer.rew.copy()


def test_a_view_of_columns_that_are_no_more_is_refused():
    buffer = filled(ReplayBuffer(4))
    buffer.columns.obs = Batch(x=np.zeros(4))
    stale = buffer.obs
    buffer.columns.obs = np.zeros((4, 3))
    with pytest.raises(errors.StructureError, match="does not store a batch 'obs' any more; read it again"):
        stale.x = np.ones(4)
    with pytest.raises(errors.StructureError, match=r"remove them from a copy, buffer\[:\]"):
        del buffer.columns.rew
    rows = buffer[:]
    assert rows.pop("rew").tolist() == [1.0] * 4
