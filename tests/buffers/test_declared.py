"""Declared types of a buffer: validated when its columns are laid out, and cheap to check after that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Generic

import numpy as np
import pytest
import torch
from annotated_types import Ge
from jaxtyping import Float32, Int
from torch import Tensor
from typing_extensions import TypeVar

from tests.buffers.helpers import held, step, steps
from typedbatch import Batch, BatchRecord, Column, RolloutBatch, SchemaError, checking, objects
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.errors import DeclarationError, MissingFieldError, RowAssignmentError

Array = np.ndarray[Any, np.dtype[Any]]


class Step(BatchRecord):
    obs: Float32[Array, "N 4"]
    obs_next: Float32[Array, "N 4"]
    act: Int[Array, "N"]
    rew: Float32[Array, "N"]
    terminated: Array
    truncated: Array
    goal: Float32[Array, "N 2"]


class Positive(BatchRecord):
    obs: Array
    act: Array
    rew: Annotated[Array, Ge(0)]
    terminated: Array


class PrioStep(Step):
    weight: Array


class Frames(Step):
    obs: Float32[Array, "N 3 4"]  # type: ignore[assignment]
    obs_next: Float32[Array, "N 3 4"]  # type: ignore[assignment]


class StepBuffer(ReplayBuffer[Step]):
    pass


def fields(lead: tuple[int, ...] = (), **others: Any) -> dict[str, Any]:
    return {
        "obs": np.ones((*lead, 4), np.float32), "obs_next": np.ones((*lead, 4), np.float32), "act": np.ones(lead, int),
        "rew": np.ones(lead, np.float32), "terminated": np.zeros(lead, bool), "truncated": np.zeros(lead, bool),
        "goal": np.ones((*lead, 2), np.float32), **others,
    }  # fmt: skip


def report(error: pytest.ExceptionInfo[SchemaError]) -> str:
    return str(error.value)


class TestWhatIsAdded:
    def test_a_row_that_matches_is_taken_and_comes_back_as_the_record(self):
        buffer = ReplayBuffer[Step](5)
        buffer.add(Step(**fields()))
        batch, _ = buffer.sample(3)
        assert type(batch) is Step
        assert batch.goal.dtype == np.float32
        assert type(buffer[0]) is type(buffer[:]) is Step

    @pytest.mark.parametrize("buffer", [ReplayBuffer[Step](5), StepBuffer(5)], ids=["argument", "base"])
    def test_a_first_row_that_does_not_match_is_reported_and_nothing_is_laid_out(self, buffer: Any):
        with pytest.raises(SchemaError) as error:
            buffer.add(Batch(**fields(rew=np.float64(1), goal=np.ones(3, np.float32))))
        assert {problem.path for problem in error.value.problems} == {"rew", "goal"}
        assert f"argument `batch` of {type(buffer).__name__}.add()" in report(error)
        assert len(buffer) == 0
        assert repr(buffer) == f"{type(buffer).__name__}()"
        buffer.add(Batch(**fields()))
        assert len(buffer) == 1

    def test_a_declared_field_that_later_rows_lack_is_missing_not_zero(self):
        buffer = ReplayBuffer[Step](5)
        buffer.add(Batch(**fields()))
        row = Batch(**fields())
        del row.goal
        with pytest.raises(SchemaError, match=r"batch\.goal  missing"):
            buffer.add(row)
        assert len(buffer) == 1

    def test_later_rows_have_the_dtypes_and_shapes_of_the_columns(self):
        buffer = ReplayBuffer[Step](5)
        buffer.add(Batch(**fields()))
        with pytest.raises(RowAssignmentError, match="field 'goal'"):
            buffer.add(Batch(**fields(goal=np.ones(3, np.float32))))
        with pytest.raises(RowAssignmentError, match="field 'act'"):
            buffer.add(Batch(**fields(act=0.5)))
        buffer.add(Batch(**fields(obs=np.ones(4))))  # float64 that float32 can hold, as everywhere
        assert buffer[:].obs.dtype == np.float32
        assert len(buffer) == 2

    def test_rows_of_several_environments_are_checked_as_they_are(self):
        buffer = VectorReplayBuffer[Step](6, 2)
        with pytest.raises(SchemaError, match=r"batch\.goal"):
            buffer.add(Batch(**fields((2,), goal=np.ones((2, 3), np.float32))))
        buffer.add(Batch(**fields((2,))))
        assert type(buffer.buffers[1][:]) is Step

    def test_a_cached_buffer_holds_what_it_was_declared_to(self):
        main = ReplayBuffer[Step](6)
        buffer = CachedReplayBuffer[Step](main, 2, 3)
        buffer.add(Batch(**fields((2,), terminated=np.array([True, False]))))
        assert type(main[:]) is type(buffer[:]) is Step

    def test_without_obs_next_the_record_is_whole_when_sampled(self):
        buffer = ReplayBuffer[Step](5, ignore_obs_next=True)
        row = Batch(**fields())
        del row.obs_next
        buffer.add(row)
        assert buffer[:].obs_next.shape == (1, 4)

    def test_a_buffer_without_arguments_takes_any_fields_beside_the_five(self):
        buffer = ReplayBuffer(5)
        with pytest.raises(MissingFieldError, match=r"no field 'rew'; it has obs.*did you mean 'reww'"):
            buffer.add(Batch(obs=1, act=1, reww=1.0, terminated=False, truncated=False))
        buffer.add(Batch(obs=1, act="left", rew=1, terminated=0, truncated=0, note=None))
        assert type(buffer[:]) is Batch
        assert buffer[:].act.tolist() == ["left"]

    def test_switched_off_nothing_is_validated(self):
        buffer = ReplayBuffer[Step](5)
        with checking("off"):
            buffer.add(Batch(**fields(goal=np.ones(3, np.float32))))
        assert buffer[:].goal.shape == (1, 3)

    @pytest.mark.parametrize("make", [ReplayBuffer, PrioritizedReplayBuffer])
    def test_values_of_every_row_are_checked_at_the_level_of_values(self, make):
        more = {"alpha": 0.6, "beta": 0.4} if make is PrioritizedReplayBuffer else {}
        buffer = make[Positive](4, **more)
        buffer.add(step(0))
        with checking("values"), pytest.raises(SchemaError, match=r"batch\.rew"):
            buffer.add(step(-1))
        buffer.add(step(-1))
        assert buffer[:].rew.tolist() == [0, -1]


class TestWhatIsSampled:
    def test_stacked_frames_are_another_type_than_what_is_added(self):
        buffer = ReplayBuffer[Step, Frames](5, stack_num=3)
        buffer.add(Batch(**fields()))
        assert type(buffer.sample(2)[0]) is Frames
        assert buffer.sample(2)[0].obs.shape == (2, 3, 4)

    def test_frames_that_were_not_declared_are_refused_at_the_first_row(self):
        buffer = ReplayBuffer[Step](5, stack_num=3)
        with pytest.raises(SchemaError) as error:
            buffer.add(Batch(**fields()))
        assert [problem.path for problem in error.value.problems] == ["obs", "obs_next"]
        assert "result of ReplayBuffer.sample()" in report(error)
        assert len(buffer) == 0

    def test_a_prioritized_buffer_gives_weights_with_the_record(self):
        buffer = PrioritizedReplayBuffer[Step, PrioStep](5, 0.6, 0.4)
        buffer.add(Batch(**fields()))
        batch, _ = buffer.sample(2)
        assert type(batch) is PrioStep
        assert batch.weight.tolist() == [1, 1]

    def test_a_prioritized_buffer_without_second_argument_gives_weights(self):
        buffer = PrioritizedReplayBuffer[Step](5, 0.6, 0.4)
        buffer.add(Batch(**fields()))
        batch, _ = buffer.sample(2)
        assert type(batch) is Batch
        assert "weight" in batch


class DoneStep(Step):
    done: Array
    policy: Batch


def stacked(cls: Any) -> Any:
    return cls[Step, Frames](6, stack_num=3)


TYPED: dict[str, tuple[Any, type]] = {
    "argument": (lambda path: ReplayBuffer[Step](6), Step),
    "class": (lambda path: StepBuffer(6), Step),
    "prioritized": (lambda path: PrioritizedReplayBuffer[Step, PrioStep](6, 0.6, 0.4), PrioStep),
    "stacked": (lambda path: stacked(ReplayBuffer), Frames),
    "on disk": (lambda path: StepBuffer(6, path=path / "b"), Step),
    "without obs_next": (lambda path: StepBuffer(6, ignore_obs_next=True), Step),
}


def ways_out(buffer: Any) -> dict[str, Any]:
    """Return the rows of a buffer, read in every way."""
    return {
        "sample": buffer.sample(2)[0], "all of it": buffer.sample(0)[0], "a row": buffer[0], "rows": buffer[[0, 1]],
        "everything": buffer[:], "iteration": next(iter(buffer)), "a ring": buffer.buffers[0][:],
        "a ring's sample": buffer.buffers[0].sample(1)[0],
    }  # fmt: skip


class TestBookkeeping:
    @pytest.mark.parametrize("name", TYPED)
    def test_no_typed_row_has_fields_that_nobody_declared(self, name, tmp_path):
        make, record = TYPED[name]
        buffer = make(tmp_path)
        for number in range(3):
            buffer.add(Batch(**fields(done=True, info=Batch(), terminated=np.array(number == 1))))
        for way, rows in ways_out(buffer).items():
            declared = set(Step.__annotations__) | ({"weight"} if "weight" in rows else set())
            assert set(rows.keys()) == declared, way
            with pytest.raises(MissingFieldError, match="no field 'done'"):
                _ = rows.done
        assert type(buffer.sample(1)[0]) is record

    def test_nor_does_one_that_was_in_a_file_or_a_folder(self, tmp_path):
        buffer = StepBuffer(6, path=tmp_path / "b")
        buffer.add(Batch(**fields(truncated=np.array(True))))
        buffer.save_hdf5(tmp_path / "b.h5")
        for again in (StepBuffer.open(tmp_path / "b", "r"), StepBuffer.load_hdf5(tmp_path / "b.h5")):
            for rows in ways_out(again).values() if len(again) > 1 else (again[:], again.sample(2)[0], again[0]):
                assert set(rows.keys()) == set(Step.__annotations__)
            assert again.done[:1].tolist() == [True]

    def test_nor_do_goals_and_caches(self):
        goal = Batch(achieved_goal=np.zeros(1), desired_goal=np.ones(1))
        row = Batch(obs=goal, obs_next=goal, act=0.0, rew=0.0, terminated=False, truncated=False, info=Batch())
        hindsight = HERReplayBuffer[RolloutBatch[Any, Batch]](5, lambda achieved, _: np.zeros(len(achieved)), 3)
        hindsight.add(row)
        cached = CachedReplayBuffer[RolloutBatch[Any, Batch]](ReplayBuffer(5), 1, 3)
        cached.add(Batch.stack([row]))
        for buffer in (hindsight, cached):
            assert not {"done", "policy"} & set(buffer.sample(2)[0].keys())
            assert not {"done", "policy"} & set(buffer[:].keys())

    def test_what_is_declared_is_there(self):
        buffer = ReplayBuffer[DoneStep](5)
        with pytest.raises(SchemaError, match=r"batch\.policy  missing"):
            buffer.add(Batch(**fields(done=np.array(False))))
        buffer.add(Batch(**fields(truncated=np.array(True), done=np.array(True), policy=Batch())))
        assert buffer.sample(1)[0].done.tolist() == [True]
        assert buffer.sample(1)[0].policy == Batch()

    def test_what_is_added_with_values_stays(self):
        buffer = ReplayBuffer[Step](5)
        buffer.add(Batch(**fields(policy=Batch(logp=0.5), info=Batch(step=3))))
        rows: Any = buffer[:]
        assert (rows.policy.logp.tolist(), rows.info.step.tolist()) == ([0.5], [3])

    def test_a_buffer_that_declares_nothing_gives_what_tianshou_does(self):
        buffer = ReplayBuffer(5)
        buffer.add(Batch(**fields(truncated=np.array(True))))
        rows: Any = buffer[:]
        assert rows.done.tolist() == [True]
        assert rows.info == rows.policy == Batch()


class TestTensors:
    def test_a_torch_stage_is_stored_as_tensors_and_comes_back_so(self):
        buffer = ReplayBuffer[RolloutBatch[Tensor]](5)
        zero = torch.tensor(0.0)
        row = Batch(obs=torch.ones(3), obs_next=torch.ones(3), act=zero, rew=zero, info=Batch())
        row.update(terminated=torch.tensor(False), truncated=torch.tensor(True))
        added = buffer.add(row)
        batch, slots = buffer.sample(2)
        assert isinstance(batch.obs, Tensor)
        assert isinstance(batch.terminated, Tensor)
        assert added.ep_len.tolist() == [1]
        assert buffer.unfinished_index().tolist() == []
        assert buffer.next(slots).tolist() == slots.tolist()

    def test_arrays_where_tensors_are_declared_are_refused(self):
        buffer = ReplayBuffer[RolloutBatch[Tensor]](5)
        with pytest.raises(SchemaError, match="torch tensor"):
            buffer.add(Batch(**fields(info=Batch())))


class TestUnions:
    def test_each_alternative_is_taken_and_comes_back_as_itself(self):
        class Other(BatchRecord):
            obs: Int[Array, "N"]

        buffer = ReplayBuffer[Step | Other](5)
        buffer.add(Batch(**fields()))
        assert type(buffer.sample(2)[0]) is Step
        other = ReplayBuffer[Step | Other](5)
        other.add(Batch(**fields(obs=np.array(1))))
        assert type(other.sample(2)[0]) is Other

    def test_what_is_no_batch_cannot_be_declared(self):
        with pytest.raises(DeclarationError):
            ReplayBuffer[int](5).add(Batch(**fields()))  # type: ignore[type-var]


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


class Item(BatchRecord):
    note: Column[Any]


class Noted(RolloutBatch):
    note: Column[Any]
    item: Item


OBJECTS: dict[str, Any] = {
    "list": [1, 2], "empty list": [], "uneven lists": [[1], [2, 3]], "list of dicts": [{"a": 1}, {"b": 2}],
    "dict": {"a": 1}, "empty dict": {}, "integer": 5, "number": 0.5, "flag": True, "text": "abc", "None": None,
    "array": np.ones(2), "tensor": torch.ones(3), "tensor of no dimensions": torch.tensor(1.0),
    "tensors": [torch.ones(2)], "set": {1}, "batch": Batch(a=[1]),
}  # fmt: skip
NOTED: dict[str, Any] = {
    "ring": lambda: ReplayBuffer[Noted, Any](4),
    "vector": lambda: VectorReplayBuffer[Noted, Any](8, 2),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer[Noted, Any](4), 2, 2),
    "prioritized": lambda: PrioritizedReplayBuffer[Noted, Any](4, 0.6, 0.4),
}


@pytest.mark.parametrize("what", OBJECTS)
@pytest.mark.parametrize("into", ["row of a record", "record", "batch"])
@pytest.mark.parametrize("name", NOTED)
def test_any_object_is_stored_in_a_declared_column_of_objects(name, into, what):
    value, buffer = OBJECTS[what], NOTED[name]()
    row = dict(zip(("obs", "act", "rew", "obs_next"), np.zeros((4, 1)), strict=True)) | {"info": {}}
    row |= {"rew": 0.0, "terminated": False, "truncated": False}

    def noted(one: Any) -> Any:
        if into == "row of a record":
            column, inner = objects([one]), Item(note=objects([one]))
            rows = {name: np.asarray([value]) for name, value in row.items() if name != "info"}
            return Noted(**rows, info=Batch(), note=column, item=inner)[0]
        if into == "record":
            arrays = {name: np.asarray(value) for name, value in row.items() if name != "info"}
            return Noted(**arrays, info=Batch(), note=one, item=Item(note=one))
        return Batch({**row, "note": one, "item": Item(note=one)})

    for one in (value, [3], value):
        if name in ("ring", "prioritized"):
            buffer.add(noted(one))
        else:
            buffer.add(noted(one), buffer_ids=[0])
    rows = buffer[:]
    for column in (rows.note, rows.item.note):
        assert (column.dtype, column.shape) == (np.dtype(object), (len(buffer),))
        assert column[-2] == [3] or into == "batch"
        if into == "row of a record":
            assert column[-1] is value
        elif into == "record" and type(value) is dict:
            assert isinstance(column[-1], Batch)  # the constructor of the row has made it one
        elif into == "record" and type(value) in (list, int, float, bool, str, set):
            assert column[-1] == value
