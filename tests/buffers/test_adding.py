"""Adding rows to a buffer: fields, dtypes, flags, masks and rings, and rows that are refused and change nothing."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Shaped

from tests.buffers.helpers import (
    BUFFERS,
    assert_same,
    assert_untouched,
    contents,
    every_buffer,
    every_store,
    held,
    holding,
    ids_for,
    made,
    row,
    rows_for,
    step,
    steps,
    transition,
    transitions,
)
from typedbatch import Batch, BatchRecord, Sorted, checking, errors
from typedbatch.buffers import CachedReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import FieldNameError, RowAssignmentError, StorageError

BAD: dict[str, tuple[str, Any]] = {
    "fractions into integers": ("act", np.array([0.5, 1.0])),
    "too large for bytes": ("byte", np.array([3, 300])),
    "negative for unsigned": ("byte", np.array([3, -1])),
    "complex into real": ("rew", np.array([1j, 1.0])),
    "nan into integers": ("act", np.array([np.nan, 1.0])),
    "text into integers": ("act", np.array(["a", "b"])),
    "overflowing float": ("half", np.array([1.0, 1e6])),
    "fractions into nested integers": ("deep.inner.count", np.array([1.5, 2.0])),
    "fractions into a tensor of integers": ("tensor", torch.tensor([1.5, 2.0])),
    "another shape": ("byte", np.zeros((2, 2), np.uint8)),
    "another shape of a tensor": ("tensor", torch.zeros(2, 3, dtype=torch.int64)),
    "another nested shape": ("deep.inner.vector", np.zeros((2, 4))),
    "no dimension where there was one": ("deep.inner.vector", np.zeros(2)),
    "too many rows": ("byte", np.zeros(3, np.uint8)),
    "too many rows of a new field": ("new", np.zeros(3)),
    "a batch for an array": ("byte", Batch(a=np.zeros(2))),
    "an array for a batch": ("deep", np.zeros(2)),
    "flags of another shape": ("terminated", np.zeros((2, 2), bool)),
    "flags that are text": ("truncated", np.array(["a", "b"])),
}


def wide_rows(name: str, numbers: list[float], **more: Any) -> Batch:
    fields: dict[str, Any] = {
        "byte": np.array([1, 2], np.uint8),
        "half": np.array([1.0, 2.0], np.float16),
        "tensor": torch.tensor([1, 2]),
        "deep": {"inner": {"count": np.array([1, 2]), "vector": np.ones((2, 3))}},
    }
    return rows_for(name, numbers, **{**fields, **more})


@every_buffer
@pytest.mark.parametrize("bad", BAD)
def test_rows_that_do_not_fit_are_an_error_that_names_the_field_and_changes_nothing(name, bad):
    path, value = BAD[bad]
    buffer, twin = BUFFERS[name](), BUFFERS[name]()
    for one in (buffer, twin):
        one.add(wide_rows(name, [1, 2]), buffer_ids=ids_for(name))
    before = contents(buffer)
    rows = wide_rows(name, [3, 4], first_new=np.zeros(2))
    *outer, last = path.split(".")
    place = rows
    for name_of_batch in outer:
        place = place[name_of_batch]
    place.__dict__[last] = value
    with pytest.raises(errors.RowAssignmentError, match=path.replace(".", r"\.")):
        buffer.add(rows, buffer_ids=ids_for(name))
    assert_same(contents(buffer), before)
    for _ in range(3):  # the positions and the episode are where they were, too
        after, expected = (
            one.add(wide_rows(name, [5, 6], terminated=np.ones(2, bool)), buffer_ids=ids_for(name))
            for one in (buffer, twin)
        )
        for mine, other in zip(after, expected, strict=True):
            assert mine.tolist() == other.tolist()
    assert_same(contents(buffer), contents(twin))


VALUES: dict[str, list[Any]] = {
    "obs": [np.zeros(2), np.ones(2, np.float32), np.zeros(3), np.ma.masked_array([1.0, 2.0], [True, False]), [1, 2]],
    "act": [np.array(1), np.array(1.0), np.array(0.5), np.array([1]), torch.tensor(1), None],
    "rew": [np.array(1.0), np.array(1), np.array(1.0, ">f8"), np.float32(2), np.zeros(2), "much"],
    "terminated": [np.array(True), np.array(1), np.array(2), np.array([False]), torch.tensor(True), None],
    "truncated": [np.array(False), np.array(0.0), np.zeros((1, 1), bool)],
    "obs_next": [np.ones(2), np.ones(2, np.int8), np.zeros((1, 2)), Batch(a=np.zeros(2))],
    "done": [np.array(True), np.array(False), np.zeros(3)],
    "new": [np.array(1.0), np.zeros(2)],
}
"""Values for a row; the first of each field is stored unchanged."""


ABSENT = object()
PLAIN = {name: VALUES[name][0] for name in [*VALUES][:6]}
PAIRS = [(name, value) for name, values in VALUES.items() for value in [*values, ABSENT]]


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@given(
    rows=st.lists(st.lists(st.sampled_from(PAIRS), max_size=2).map(lambda pairs: PLAIN | dict(pairs)), max_size=5),
    options=st.sampled_from([{}, {}, {"ignore_obs_next": True}]),
    many=st.booleans(),
)
@example([PLAIN | {"done": np.array(True), "obs_next": ABSENT}], {}, False)
def test_rows_that_are_stored_unchanged_are_checked_and_added_as_others_are(rows, options, many):
    outcomes: list[dict[str, Any]] = []
    for shortcut in (True, False):
        buffer: Any = VectorReplayBuffer(4, 2, **options) if many else ReplayBuffer(2, **options)
        state = state_of(buffer)
        state.stores_all &= shortcut
        outcomes.append({"counts": state.rings.counts})
        for number, fields in enumerate([PLAIN, *rows, *rows[:1]]):
            one: Any = Batch({name: value for name, value in fields.items() if value is not ABSENT})
            try:
                added = buffer.add(Batch.stack([one] * 2) if many else one)
                outcomes[-1] |= {f"{number}.{name}": column for name, column in added._asdict().items()}
            except errors.TypedBatchError as error:
                outcomes[-1][str(number)] = f"{type(error)}: {error}"
        outcomes[-1]["columns"] = state.columns
    assert_same(*outcomes)


@pytest.mark.parametrize("absent", ["obs", "act", "rew", "terminated", "truncated"])
@every_buffer
def test_a_required_field_that_is_missing_is_named(name, absent):
    buffer = holding(name)
    rows = rows_for(name, [1, 2])
    del rows[absent]
    before = contents(buffer)
    with pytest.raises(errors.MissingFieldError, match=absent):
        buffer.add(rows, buffer_ids=ids_for(name))
    assert_same(contents(buffer), before)


def test_values_that_another_dtype_holds_exactly_are_taken():
    buffer = ReplayBuffer(4)
    buffer.add(transition(1, obs=np.array([1.0, 2.0], np.float32)))
    buffer.add(transition(2, act=2.0, obs=np.array([0.1, 0.2])))
    assert buffer.act.dtype == np.int64
    assert buffer.obs.dtype == np.float32
    assert buffer[[0, 1]].act.tolist() == [1, 2]
    assert buffer[1].obs.tolist() == np.array([0.1, 0.2], np.float32).tolist()


def test_rewards_keep_their_precision_and_whole_numbers_become_doubles():
    for dtype, kept in ((np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64), (bool, np.float64)):
        buffer = ReplayBuffer(2)
        buffer.add(transition(1, rew=dtype(1)))
        assert buffer.rew.dtype == kept


@every_buffer
def test_what_is_added_is_copied_and_left_alone(name):
    buffer = BUFFERS[name]()
    rows = rows_for(name, [1, 2], more={"a": np.arange(2.0), "t": torch.arange(2.0)})
    before, fields = pickle.dumps(rows), list(rows)
    for i in range(5):
        added = buffer.add(rows, buffer_ids=ids_for(name))
        buffer.sample(8)
        assert_untouched(rows, before)
        assert list(rows) == fields, i
    rows.act[:] = 99
    rows.more.a[:] = 99
    rows.more.t[:] = 99
    read = buffer[added.slots]
    assert read.act.tolist() == [1, 2]
    assert read.more.a.tolist() == read.more.t.tolist() == [0.0, 1.0]


@every_buffer
@pytest.mark.parametrize("ids", [[0, -1], [0, 9], [0, 0.5], [[0, 1]], ["a", "b"], 0], ids=repr)
def test_rings_that_do_not_exist_are_refused(name, ids):
    buffer = holding(name)
    before = contents(buffer)
    with pytest.raises(errors.StructureError, match=r"ring|buffer_ids"):
        buffer.add(rows_for(name, [1, 2]), buffer_ids=ids)
    assert_same(contents(buffer), before)


@every_buffer
def test_rows_and_rings_must_be_as_many(name):
    buffer = holding(name)
    before = contents(buffer)
    with pytest.raises(errors.TypedBatchError):
        buffer.add(rows_for(name, [1, 2]), buffer_ids=ids_for(name)[:1])
    assert_same(contents(buffer), before)


def test_the_caches_do_not_reach_into_the_main_buffer():
    buffer = BUFFERS["cached"]()
    for ids in ([-1, 0], [0, 2], [1, 1]):
        with pytest.raises(errors.StructureError):
            buffer.add(transitions([1, 2]), buffer_ids=ids)
    assert len(buffer) == 0


def test_rows_added_to_a_ring_are_rows_of_the_whole():
    buffer = holding("vector", 1)
    part = buffer.buffers[1]
    assert part.add(transition(7)).slots.tolist() == [1]
    assert buffer[:].act.tolist() == [0, 5, 7]
    assert part[:].act.tolist() == [5, 7]
    assert buffer.add(transitions([8, 9])).slots.tolist() == [1, 6]


def test_a_main_buffer_must_be_plain_and_empty():
    with pytest.raises(errors.LeafError):
        CachedReplayBuffer(VectorReplayBuffer(4, 2), 2, 2)
    with pytest.raises(errors.LeafError):
        CachedReplayBuffer(PrioritizedReplayBuffer(4, 1.0, 1.0), 2, 2)
    with pytest.raises(errors.StructureError):
        CachedReplayBuffer(holding("ring"), 2, 2)


@pytest.mark.parametrize("add", ["add", "extend"])
def test_a_main_buffer_without_slots_takes_no_rows(add):
    buffer: Any = CachedReplayBuffer(ReplayBuffer(0), 1, 3)
    buffer.add(transitions([1]))
    row = transition(2) if add == "add" else transitions([2, 3])
    with pytest.raises(errors.SizeError, match="capacity of 0 rows"):
        getattr(buffer.main_buffer, add)(row)
    assert (len(buffer), len(buffer.main_buffer)) == (1, 0)


def test_sizes_that_no_buffer_has_are_refused():
    for size in (-1, 0.5):
        with pytest.raises(errors.SizeError, match="size is"):
            ReplayBuffer(size)
    for rings in (0, -1):
        with pytest.raises(errors.SizeError, match="buffer_num"):
            VectorReplayBuffer(4, rings)
    with pytest.raises(errors.SizeError, match="stack_num"):
        ReplayBuffer(4, stack_num=0)
    for caches, rows in ((0, 1), (1, 0)):
        with pytest.raises(errors.SizeError, match="is 1 or more, got 0"):
            CachedReplayBuffer(ReplayBuffer(4), caches, rows)


Array = np.ndarray[Any, np.dtype[Any]]


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


def with_fields(**fields: Any) -> Batch:
    return Batch(transition(1), **fields)


@pytest.mark.parametrize("before", [0, 1], ids=["a new field", "a field that is there"])
@pytest.mark.parametrize("dtype", [float, int, object, np.float32], ids=str)
def test_a_masked_value_is_not_stored(before: int, dtype: Any) -> None:
    buffer = ReplayBuffer(4)
    for _ in range(before):
        buffer.add(with_fields(x=np.zeros(2, dtype)))
    masked = np.ma.array([1, 2], dtype, mask=[False, True])
    with pytest.raises(RowAssignmentError, match="field 'x': some values are masked"):
        buffer.add(with_fields(x=masked))
    assert len(buffer) == before
    buffer.add(with_fields(x=np.ma.array([1, 2], dtype)))  # none of these is
    assert buffer[:].x[-1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"), [("rew", np.ma.masked), ("terminated", np.ma.array(True, mask=True)), ("act", np.ma.masked)]
)
def test_masked_rewards_flags_and_actions_are_refused(name: str, value: Any) -> None:
    buffer = ReplayBuffer(4)
    for _ in range(2):
        with pytest.raises(RowAssignmentError, match=f"field '{name}': some values are masked"):
            buffer.add(with_fields(**{name: value}))
        buffer.add(transition(1))
    assert len(buffer) == 2


@pytest.mark.parametrize(
    ("first", "fits", "overflows"),
    [
        (np.datetime64(0, "ns"), np.datetime64("2020-01-01"), np.datetime64("9999-01-01")),
        (np.timedelta64(0, "ns"), np.timedelta64(5, "s"), np.timedelta64(10**7, "D")),
    ],
    ids=["date", "duration"],
)
def test_a_date_that_overflows_is_not_stored(first: Any, fits: Any, overflows: Any) -> None:
    buffer = ReplayBuffer(4)
    buffer.add(with_fields(at=first))
    with pytest.raises(RowAssignmentError, match=r"field 'at': .*\[ns\] cannot hold"):
        buffer.add(with_fields(at=overflows))
    buffer.add(with_fields(at=fits))
    assert buffer[:].at.tolist() == [first.astype(int), fits.astype(first.dtype).astype(int)]


FLAGS: dict[str, Any] = {
    "list": [False], "array": np.array([True]), "two dimensions": np.array([[True]]), "tensor": torch.tensor([True]),
    "numbers": [1.0],
}  # fmt: skip


@pytest.mark.parametrize("ids", [None, [0]])
@pytest.mark.parametrize("flags", FLAGS)
def test_one_row_takes_flags_that_have_a_dimension_of_one(flags, ids):
    for buffer in (ReplayBuffer(4), PrioritizedReplayBuffer(4, 0.5, 0.5)):
        added = buffer.add(row(3, terminated=FLAGS[flags], truncated=[False]), buffer_ids=ids)
        assert added.slots.tolist() == [0]
        assert buffer[0].obs.tolist() == [3, 3, 3]
        assert (buffer.done.shape, bool(buffer.done[0])) == ((4,), flags != "list")


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_rows_of_one_environment_take_flags_of_one_column(shape):
    flags = {"terminated": np.ones(shape, bool), "truncated": np.zeros(shape, bool)}
    for buffer in (VectorReplayBuffer(8, 4), CachedReplayBuffer(ReplayBuffer(4), 4, 3)):
        buffer.add(Batch.stack([row(3)]).update(flags) or Batch(Batch.stack([row(3)]), **flags), buffer_ids=[2])
        buffer.add(row(4, **flags), buffer_ids=[1])
        assert sorted(buffer[:].act.tolist()) == [3, 4]
        assert buffer[:].done.tolist() == [True, True]
    both = Batch.stack([row(0), row(1)])
    both.terminated = np.array([[True], [False]])
    vector = VectorReplayBuffer(4, 2)
    vector.add(both)
    assert vector.done.tolist() == [True, False, False, False]


def test_what_could_be_one_row_or_several_is_refused():
    stacked = Batch.stack([row(3)])
    with pytest.raises(errors.RowAssignmentError, match=r"pass buffer_ids=\[0\] \* 1 to add 1 rows"):
        ReplayBuffer(4).add(stacked)
    with pytest.raises(errors.RowAssignmentError, match="one flag, without dimensions"):
        ReplayBuffer(4).add(row(3, terminated=[True, False]))
    with pytest.raises(errors.RowAssignmentError, match="a flag for each of 2 rows"):
        VectorReplayBuffer(4, 2).add(Batch(Batch.stack([row(0), row(1)]), terminated=np.zeros((2, 2), bool)))


TRUNCATED: dict[str, Any] = {
    "add": lambda buffer, rows, ids: buffer.add(rows, buffer_ids=ids),
    "extend": lambda buffer, rows, ids: buffer.extend(rows, buffer_ids=ids),
    "tensors": lambda buffer, rows, ids: buffer.add(
        Batch({**rows.__dict__, "truncated": torch.from_numpy(rows.truncated)}), buffer_ids=ids
    ),
    "update": lambda buffer, rows, ids: buffer.buffers[0].update(held(ReplayBuffer(2), rows[0], rows[1])),
    "by hand": lambda buffer, rows, ids: (
        buffer.add(rows_without_end(rows), buffer_ids=ids),
        buffer.truncate_episodes(),
    ),
}


def rows_without_end(rows: Batch) -> Batch:
    rows = rows.copy()
    rows.truncated = np.zeros(2, bool)
    return rows


@pytest.mark.parametrize("way", TRUNCATED)
@every_store
def test_a_truncated_row_without_obs_next_causes_a_warning(name, way, tmp_path):
    plain = name.removesuffix(" on disk")
    buffer, ids = made(name, tmp_path, ignore_obs_next=True), ids_for(plain)
    buffer.add(rows_for(plain, [1, 2], terminated=True, truncated=np.array([True, True])), buffer_ids=ids)
    rows = rows_for(plain, [3, 4], truncated=np.array([False, True]))
    with pytest.warns(UserWarning, match="values at time limits are wrong; leave the option out to store obs_next"):
        TRUNCATED[way](buffer, rows, ids)
    stored = made(name, tmp_path / "stored")  # the way out
    stored.add(rows_for(plain, [1, 2], terminated=True), buffer_ids=ids)
    stored.add(rows_for(plain, [1, 2], terminated=True), buffer_ids=ids)
    TRUNCATED[way](stored, rows, ids)
    assert buffer.options["ignore_obs_next"] is True
    assert stored.options["ignore_obs_next"] is False


@pytest.mark.parametrize("make", [transition, step])
def test_a_warning_that_is_an_error_leaves_the_buffer_as_it_was(make):
    truncated = make(1, truncated=True)
    del truncated["obs_next"]
    buffer = held(ReplayBuffer(4, ignore_obs_next=True), make(0))
    for _ in range(2):
        with pytest.raises(UserWarning, match="with ignore_obs_next=True"):
            buffer.add(truncated)
        with pytest.raises(UserWarning, match="with ignore_obs_next=True"):
            buffer.truncate_episodes()
    assert (len(buffer), buffer.done.any()) == (1, False)


def test_a_killed_process_leaves_rows_that_move_without_a_warning(tmp_path):
    buffer = CachedReplayBuffer(ReplayBuffer(4, ignore_obs_next=True), 1, 2, path=tmp_path)
    buffer.add(transitions([1]), buffer_ids=[0])
    with pytest.warns(UserWarning, match="with ignore_obs_next=True"):  # this does not move it, like a killed process
        buffer.cached_buffers[0].truncate_episodes()
    buffer.close()
    assert len(CachedReplayBuffer.open(tmp_path).main_buffer) == 1
