"""What easily goes wrong at the edges of buffers: graphs, rings side by side, cut episodes, failures half way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Generic

import h5py
import numpy as np
import pytest
import torch
from jaxtyping import Shaped
from typing_extensions import TypeVar

from typedbatch import Batch, BatchRecord, RolloutBatch, SchemaError, Sorted, checking
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
    compute_nstep_return,
)
from typedbatch.errors import FieldNameError, RowAssignmentError, RowIndexError, StorageError, StructureError
from typedbatch.files.hdf5 import from_hdf5

Array = np.ndarray[Any, np.dtype[Any]]


def step(i: float, done: bool = False, **others: Any) -> Any:
    return Batch(
        {"obs": i, "act": 0, "rew": float(i), "terminated": done, "truncated": False, "obs_next": i + 1} | others
    )


def steps(*values: float, done: bool = False, **others: Any) -> Any:
    return Batch.stack([step(i, done, **others) for i in values])


def held(buffer: Any, *rows: Any) -> Any:
    for row in rows:
        buffer.add(row)
    return buffer


class TestValues:
    def test_tensors_are_stored_without_their_graph(self):
        layer = torch.nn.Linear(2, 2)
        buffer = held(ReplayBuffer(4), *(step(i, hidden=layer(torch.ones(2))) for i in range(3)))
        buffer.set_array_at_key(torch.ones(4, 2, requires_grad=True), "more")
        for name in ("hidden", "more"):
            assert not getattr(buffer, name).requires_grad
            assert not buffer[:][name].requires_grad

    @pytest.mark.parametrize(
        "thing", ["text", None, {1, 2}, b"bytes", (1, "a")], ids=lambda thing: type(thing).__name__
    )
    def test_objects_come_back_as_they_were(self, thing: Any):
        for buffer in (ReplayBuffer(3), VectorReplayBuffer(6, 2)):
            row = step(0)
            row.__dict__["thing"] = thing
            if isinstance(buffer, VectorReplayBuffer):
                row = Batch.stack([step(0), step(1)])
                row.__dict__["thing"] = thing
            buffer.add(row)
            stored = buffer[0].thing
            assert type(stored) is type(thing)
            assert stored == thing
        assert bool(ReplayBuffer(3).hasnull()) is False

    @pytest.mark.parametrize("flag", [np.nan, 0.3, 2, "yes", 1j])
    def test_a_flag_is_nothing_but_true_or_false(self, flag: Any):
        buffer = held(ReplayBuffer(3), step(0))
        with pytest.raises(RowAssignmentError, match="field 'terminated': a flag is a bool"):
            buffer.add(step(1, terminated=flag))
        assert len(buffer) == 1

    def test_several_rows_for_a_single_ring_are_told_how(self):
        buffer, rows = ReplayBuffer(4), steps(0, 1, 2)
        with pytest.raises(RowAssignmentError) as error:
            buffer.add(rows)
        assert str(error.value) == (
            "field 'terminated': one flag, without dimensions, is expected, got bool[3]; "
            "pass buffer_ids=[0] * 3 to add 3 rows"
        )
        assert buffer.add(rows, buffer_ids=[0] * 3).slots.tolist() == [0, 1, 2]

    def test_a_complex_number_goes_into_a_real_column_only_without_its_imaginary_part(self):
        buffer = held(ReplayBuffer(3), step(0.0))
        buffer.add(step(1.0, obs=np.array(2 + 0j)))
        with pytest.raises(RowAssignmentError, match="field 'obs'"):
            buffer.add(step(1.0, obs=np.array(2 + 1j)))
        assert buffer[:].obs.tolist() == [0.0, 2.0]

    def test_a_complex_tensor_is_cut_down_to_integers_no_more_than_a_real_one(self):
        buffer = held(ReplayBuffer(3), step(0, count=torch.tensor(1)))
        buffer.add(step(1, count=torch.tensor(2 + 0j)))
        for count in (torch.tensor(2.7 + 0j), torch.tensor(2.7), torch.tensor(2 + 1j)):
            with pytest.raises(RowAssignmentError, match=r"field 'count': torch\.int64 cannot hold"):
                buffer.add(step(2, count=count))
        assert buffer[:].count.tolist() == [1, 2]

    def test_a_column_takes_rows_of_its_own_shape_and_flags_are_not_set_by_themselves(self):
        buffer = held(ReplayBuffer(3), *(step(i, goal=np.zeros(2)) for i in range(3)))
        with pytest.raises(RowAssignmentError, match="field 'goal': rows like those of"):
            buffer.set_array_at_key(np.ones((3, 1)), "goal")
        for name in ("terminated", "truncated", "done"):
            with pytest.raises(FieldNameError, match="marks where episodes end"):
                buffer.set_array_at_key(np.ones(3, bool), name)
        with pytest.raises(FieldNameError):
            buffer.set_array_at_key(np.ones(3), 5)  # type: ignore[arg-type]
        assert not buffer.goal.any()

    def test_a_field_that_is_missing_is_zero_when_another_one_is_new(self):
        buffer = held(ReplayBuffer(1), step(0, extra=7), step(0, other=8))
        assert buffer.extra.tolist() == [0]
        assert buffer.other.tolist() == [8]


class TestNeighbours:
    def test_episodes_do_not_go_on_in_another_ring_after_a_move(self):
        vector = held(VectorReplayBuffer(8, 2), *(steps(i, 10 + i) for i in range(3)))
        ring = ReplayBuffer(8)
        ring.update(vector)
        assert ring[:].obs.tolist() == [0, 1, 2, 10, 11, 12]
        assert ring.next([2, 5]).tolist() == [2, 5]
        assert ring.prev(3) == 3
        assert not ring[:].terminated.any()
        returns = compute_nstep_return(
            ring[:], ring, np.arange(6), lambda _, slots: np.zeros(len(slots)), 1.0, 6
        ).returns
        assert returns.tolist() == [3, 3, 2, 33, 23, 12]

    def test_an_episode_whose_last_row_is_dropped_ends_with_the_one_before(self):
        rows = [step(0.0), step(1.0), step(np.nan, done=True), step(3.0), step(4.0)]
        buffer = held(ReplayBuffer(8), *rows)
        buffer.dropnull()
        assert buffer[:].obs.tolist() == [0, 1, 3, 4]
        assert buffer.done[:4].tolist() == [False, True, False, False]
        assert buffer.next(1) == 1
        added = buffer.add(step(5, done=True))
        assert added.ep_start.tolist() == [2]

    def test_neighbours_of_slots_without_a_row_are_not_made_up(self):
        buffer = held(ReplayBuffer(10), *(step(i) for i in range(4)))
        assert buffer.prev(-1) == 2
        assert buffer.next(-2) == 3
        for slots in (7, [0, 7], 25, 1.5, None):
            for neighbour in (buffer.prev, buffer.next):
                with pytest.raises(RowIndexError):
                    neighbour(slots)
        with pytest.raises(RowIndexError):
            compute_nstep_return(buffer[[0]], buffer, np.array([1.7]), lambda _, slots: np.zeros(1))

    def test_iteration_visits_every_row_of_every_ring_in_the_order_of_time(self):
        buffer = held(VectorReplayBuffer(10, 2), steps(0, 10), steps(1, 11))
        assert [int(row.obs) for row in buffer] == [0, 1, 10, 11]

    def test_edges_are_given_as_a_copy(self):
        buffer = VectorReplayBuffer(10, 2)
        buffer.subbuffer_edges[:] = 0
        assert buffer.subbuffer_edges.tolist() == [0, 5, 10]


class FramesInOrder(BatchRecord):
    obs: Shaped[Array, "N 4 2"]
    act: Array
    rew: Annotated[Array, Sorted]
    terminated: Array


class TestFailuresHalfWay:
    def test_rows_that_move_are_not_validated_again(self):
        main = ReplayBuffer[FramesInOrder](8, save_only_last_obs=True, stack_num=4)
        buffer = CachedReplayBuffer(main, 1, 4)
        with checking("values"):
            for i in range(3):
                frames = np.full((1, 4, 2), i)
                row = Batch(obs=frames, obs_next=frames, act=[0], rew=[3.0 - i], terminated=[i == 2], truncated=[False])
                added = buffer.add(row)
        assert added.slots.tolist() == [2]
        assert len(buffer.main_buffer) == 3

    def test_a_column_that_cannot_be_laid_out_on_disk_is_taken_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        buffer = held(ReplayBuffer(4, path=tmp_path / "buffer"), step(0))

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(StorageError, match="No space left"):
                buffer.add(step(1, extra=1.0))
        assert "extra" not in buffer[:]
        buffer.add(step(2, extra=5.0))
        again = ReplayBuffer.open(tmp_path / "buffer", "r")
        assert again[:].extra.tolist() == [0, 5]
        assert again[:].obs.tolist() == [0, 2]


class Goal(RolloutBatch):
    goal: Array


class PrioGoal(Goal):
    weight: Array


A = TypeVar("A", bound=RolloutBatch)


class OfOne(ReplayBuffer[A, A], Generic[A]):
    pass


class OfGoals(OfOne[Goal]):
    pass


class GoalBuffer(ReplayBuffer[Goal]):
    pass


class TestDeclarations:
    @pytest.mark.parametrize("make", [lambda: OfOne[Goal](4), lambda: OfGoals(4)], ids=["argument", "base"])
    def test_an_argument_is_found_through_bases(self, make: Any):
        buffer = make()
        with pytest.raises(SchemaError, match="goal"):
            buffer.add(step(0, info={}))
        buffer.add(step(0, info={}, goal=1.0))
        assert type(buffer[:]) is Goal

    def test_a_cached_buffer_holds_what_its_main_buffer_was_declared_to(self):
        buffer = CachedReplayBuffer(ReplayBuffer[Goal](4), 1, 4)
        with pytest.raises(SchemaError, match="goal"):
            buffer.add(steps(0, info={}))
        buffer.add(steps(0, info={}, goal=1.0))
        assert type(buffer[:]) is Goal

    def test_the_rings_of_a_prioritized_buffer_claim_no_weights(self):
        buffer = PrioritizedVectorReplayBuffer[Goal, PrioGoal](4, 2, 0.6, 0.4)
        buffer.add(steps(0, 1, info={}, goal=1.0))
        assert type(buffer[:]) is PrioGoal
        assert type(buffer.buffers[0][:]) is Batch

    def test_what_is_loaded_must_be_what_the_class_was_declared_to_hold(self, tmp_path: Path):
        held(ReplayBuffer(4), step(0, info={})).save_hdf5(tmp_path / "plain.h5")
        held(ReplayBuffer(4, path=tmp_path / "plain"), step(0, info={}))
        with pytest.raises(SchemaError, match="goal"):
            GoalBuffer.load_hdf5(tmp_path / "plain.h5")
        with pytest.raises(SchemaError, match="goal"):
            GoalBuffer.open(tmp_path / "plain")
        held(GoalBuffer(4), step(0, info={}, goal=1.0)).save_hdf5(tmp_path / "goals.h5")
        assert type(GoalBuffer.load_hdf5(tmp_path / "goals.h5")[:]) is Goal


class TestPriorities:
    def test_only_rows_can_be_given_a_priority(self):
        buffer = held(PrioritizedReplayBuffer(8, 0.6, 0.4), step(0))
        for slots in (4, [0, 4]):
            with pytest.raises(RowIndexError):
                buffer.init_weight(slots)
            with pytest.raises(RowIndexError):
                buffer.update_weight(slots, np.ones(np.shape(slots)))
        for priorities in (["a"], [1j]):
            with pytest.raises(RowAssignmentError, match="priorities are numbers"):
                buffer.update_weight([0], priorities)
        assert set(buffer.sample_indices(100).tolist()) == {0}


def goal_step(i: int, done: bool = False, goal: int = 99) -> Any:
    def obs(at: int) -> dict[str, Any]:
        return {"achieved_goal": np.array([float(at)]), "desired_goal": np.array([float(goal)])}

    return step(0, done, obs=obs(i), obs_next=obs(i + 1), rew=0.0)


def reached(achieved: Array, desired: Array) -> Array:
    return (achieved == desired).all(-1).astype(float)


class TestHindsight:
    def test_moved_rows_have_their_own_goals(self):
        buffer = held(
            HERReplayBuffer(8, reached, 4, 1e9, ignore_obs_next=True), *(goal_step(i, i == 3) for i in range(4))
        )
        buffer.sample(50)
        other = ReplayBuffer(8)
        other.update(buffer)
        assert set(other[:].obs_next.desired_goal.ravel().tolist()) == {99.0}

    def test_a_reward_function_cannot_change_goals_or_rewards_afterwards(self):
        kept: list[Array] = []

        def meddling(achieved: Array, desired: Array) -> Array:
            rew = reached(achieved, desired)
            desired /= 100
            kept.append(rew)
            return rew

        buffer = held(HERReplayBuffer(8, meddling, 4, 1e9), *(goal_step(i, i == 3) for i in range(4)))
        batch, slots = buffer.sample(20)
        kept[0][:] = 7
        assert set(batch.obs.desired_goal.ravel().tolist()) <= {1.0, 2.0, 3.0, 4.0}
        assert set(buffer[slots].rew.tolist()) <= {0.0, 1.0}

    def test_a_goal_of_another_shape_is_refused(self):
        row = goal_step(0)
        row.obs["desired_goal"] = row.obs_next["desired_goal"] = np.zeros(3)
        buffer = held(HERReplayBuffer(8, reached, 4, 1e9), row)
        with pytest.raises(RowAssignmentError, match="achieved goals"):
            buffer.sample(1)

    def test_slots_without_rows_are_refused(self):
        buffer = held(HERReplayBuffer(8, reached, 4, 1e9), *(goal_step(i) for i in range(3)))
        with pytest.raises(RowIndexError):
            buffer.rewrite_transitions(np.array([6]))

    def test_an_episode_longer_than_the_horizon_has_one_goal(self):
        for ignore in (False, True):
            buffer = HERReplayBuffer(16, reached, 3, 1e9, ignore_obs_next=ignore)
            held(buffer, *(goal_step(i, i == 9) for i in range(10)))
            for _ in range(20):
                batch, _ = buffer.sample(3)
                assert len(set(batch.obs.desired_goal.ravel().tolist())) == 1
                assert batch.obs.desired_goal.tolist() == batch.obs_next.desired_goal.tolist()


class TestFiles:
    def test_groups_that_are_in_two_places_are_refused_however_often(self, tmp_path: Path):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            group = file.create_group("start")
            for _ in range(60):
                inner = group.create_group("a")
                group["b"] = inner
                group = inner
            with pytest.raises(StorageError, match="two places"):
                from_hdf5(file)

    def test_a_pipe_in_place_of_a_file_is_refused(self, tmp_path: Path):
        held(ReplayBuffer(4, path=tmp_path / "buffer"), step(0))
        (tmp_path / "buffer" / "buffer.json").unlink()
        os.mkfifo(tmp_path / "buffer" / "buffer.json")
        with pytest.raises(StorageError, match=r"buffer\.json is a pipe, and not a regular file"):
            ReplayBuffer.open(tmp_path / "buffer")

    def test_a_ring_has_no_fields_of_its_own(self):
        buffer = held(VectorReplayBuffer(8, 2), steps(0, 1))
        for change in (
            lambda part: part.add(step(2, extra=1)),
            lambda part: part.set_array_at_key(np.zeros(4), "extra"),
            lambda part: part.set_batch(buffer[:]),
            lambda part: part.dropnull(),
        ):
            with pytest.raises(StructureError, match="not possible in a ring of a VectorReplayBuffer"):
                change(buffer.buffers[0])
