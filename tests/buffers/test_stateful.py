"""Any sequence of operations leaves a buffer as lists of dicts would be: in memory, on disk, saved and read again."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.buffers.helpers import distance
from tests.buffers.model import CachedModel, Model, as_batch, as_rows, is_done, leaf, row, value
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)

OWN = -1.0
"""The goal that rows for hindsight are stored with; none achieves it."""
EPS = float(np.finfo(np.float32).eps)
ALPHA, BETA = 0.5, 0.75
flags = st.tuples(st.booleans(), st.booleans())


class Buffers(RuleBasedStateMachine):
    """A buffer beside its model."""

    numbers = 0

    @initialize(
        size=st.integers(1, 12), rings=st.integers(1, 3), vector=st.booleans(),
        kind=st.sampled_from(["plain", "cached", "prioritized", "hindsight"]), ignore_obs_next=st.booleans(),
        stack_num=st.integers(1, 3), on_disk=st.booleans(), horizon=st.integers(1, 3),
        future_k=st.sampled_from([1.0, 2.0, float("inf")]),
    )  # fmt: skip
    def make(self, size, rings, vector, kind, ignore_obs_next, stack_num, on_disk, horizon, future_k):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "buffer") if on_disk else None
        self.cached, self.prioritized, self.hindsight = (kind == one for one in ("cached", "prioritized", "hindsight"))
        self.vector = vector or self.cached or rings > 1
        self.stack, self.ignore_obs_next = stack_num, ignore_obs_next
        self.horizon, self.future_k = horizon, future_k
        options = {"stack_num": stack_num, "ignore_obs_next": ignore_obs_next, "path": self.path}
        self.reward = {"compute_reward_fn": distance} if self.hindsight else {}
        plain, several = ReplayBuffer, VectorReplayBuffer
        if self.prioritized:
            plain, several = PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer
            options |= {"alpha": ALPHA, "beta": BETA}
        elif self.hindsight:
            plain, several = HERReplayBuffer, HERVectorReplayBuffer
            options |= {"horizon": horizon, "future_k": future_k, **self.reward}
        if self.cached:
            path = options.pop("path")
            self.buffer: Any = CachedReplayBuffer(ReplayBuffer(size, **options), rings, 4, path=path)
            self.model: Model = CachedModel(size, rings, 4)
        else:
            self.buffer = several(size, rings, **options) if self.vector else plain(size, **options)
            self.model = Model([-(-size // rings)] * rings)
        self.columns: set[str] = set()
        self.priorities: dict[int, float] = {}
        self.highest = self.lowest = 1.0
        self.goals: dict[int, Any] = {}
        """Values that slots read as in hindsight, in place of the stored ones."""

    def teardown(self):
        self.buffer = None
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def new_row(self, ends: tuple[bool, bool], **optional: Any) -> dict[str, Any]:
        self.numbers += 1
        return self.a_row(self.numbers, *ends, **optional)

    def a_row(self, number: int, *ends: bool, **optional: Any) -> dict[str, Any]:
        if self.hindsight:
            for obs, achieved in {"obs": number, "obs_next": number + 0.5}.items():
                optional |= {f"{obs}.achieved_goal": [float(achieved)], f"{obs}.desired_goal": [OWN]}
        return row(number, *ends, **optional)

    def written(self, slots: list[int], fields: Iterable[str]) -> None:
        self.columns |= set(fields)
        if slots:
            self.goals = {}
        if not self.prioritized:
            return
        for slot in slots:
            self.priorities[slot] = self.highest
        self.priorities = {slot: self.priorities[slot] for slot in self.model.slots()}

    # ---- what changes it ------------------------------------------------------------------------------------------

    @rule(data=st.data(), ends=flags, extra=st.booleans(), text=st.booleans(), obs_next=st.booleans())
    def add(self, data, ends, extra, text, obs_next):
        rings = len(self.model.inputs)
        ids = data.draw(st.none() | st.lists(st.integers(0, rings - 1), max_size=6, unique=self.cached), "buffer_ids")
        several = self.vector or ids is not None
        rows = []
        for i in range(rings if ids is None else len(ids)):
            optional = {"extra": self.numbers} if extra else {}
            optional |= {"info.text": f"row {self.numbers}"} if text and self.path is None else {}
            one = self.new_row(ends if not i else data.draw(flags), **optional)
            if not obs_next and self.columns and (not self.hindsight or self.ignore_obs_next):
                one = {name: given for name, given in one.items() if not name.startswith("obs_next")}
            rows.append(one)
        added = self.buffer.add(as_rows(rows, self.a_row(0)) if several else as_batch(rows[0]), buffer_ids=ids)
        expected = [
            self.model.add(ring, one) for ring, one in zip(range(rings) if ids is None else ids, rows, strict=True)
        ]
        for place, (slot, ep_return, ep_len, ep_start) in enumerate(expected):
            assert (added.slots[place], added.ep_return[place], added.ep_len[place]) == (slot, ep_return, ep_len)
            assert added.ep_start[place] == ep_start
        assert len(added.slots) == len(rows)
        self.goals = {}  # even if no row was added
        self.written([slot for slot, *_ in expected], rows[0] if rows else self.a_row(0))
        if rows and self.vector:
            self.check_parts()

    @rule(
        size=st.integers(1, 9), rings=st.sampled_from(["one", "as many"]), adds=st.lists(flags, max_size=12),
        extra=st.booleans(), ignore_obs_next=st.booleans(),
    )  # fmt: skip
    def update(self, size, rings, adds, extra, ignore_obs_next):
        count = 1 if rings == "one" or self.cached else len(self.model.rings)
        other = VectorReplayBuffer(size, count, ignore_obs_next=ignore_obs_next)
        theirs = Model([-(-size // count)] * count)
        for place, ends in enumerate(adds):
            one = self.new_row(ends, **({"extra": self.numbers} if extra else {}))
            other.add(as_rows([one]), buffer_ids=[place % count])
            theirs.add(place % count, one)
        if count != len(self.model.rings) and not self.cached:
            with pytest.raises(errors.StructureError):
                self.buffer.update(other)
            return
        taken: list[int] = []
        for mine, ring in zip(self.model.rings, theirs.rings, strict=not self.cached):
            rows = [dict(one) for _, one in ring.rows]
            if ignore_obs_next:
                for one, (slot, _) in zip(rows, ring.rows, strict=True):
                    after = theirs.rows()[theirs.neighbour(slot, 1)]
                    one |= {f"obs_next{name[3:]}": given for name, given in after.items() if name.startswith("obs.")}
            taken += mine.take(rows)
        assert self.buffer.update(other).tolist() == taken
        self.written(taken, theirs.fields())

    @rule(keep_statistics=st.booleans())
    def reset(self, keep_statistics):
        self.buffer.reset(keep_statistics=keep_statistics)
        for ring in self.model.rings:
            ring.reset(keep_statistics)
        self.priorities, self.goals = {}, {}
        self.highest = self.lowest = 1.0

    @precondition(lambda self: self.prioritized and self.model.slots())
    @rule(data=st.data())
    def update_priorities(self, data):
        slots = data.draw(st.lists(st.sampled_from(self.model.slots()), min_size=1, max_size=5))
        new = data.draw(st.lists(st.integers(-20, 20), min_size=len(slots), max_size=len(slots)))
        self.buffer.update_weight(np.array(slots), np.array(new) / 8)
        for slot, number in zip(slots, new, strict=True):
            self.priorities[slot] = abs(number) / 8 + EPS
        self.highest = max([self.highest, *(abs(number) / 8 + EPS for number in new)])
        self.lowest = min([self.lowest, *(abs(number) / 8 + EPS for number in new)])

    # ---- what must not change it ----------------------------------------------------------------------------------

    @precondition(lambda self: self.columns)
    @rule(
        ends=flags,
        wrong=st.sampled_from(
            [
                {"act": None}, {"act": 0.5}, {"act": "text"}, {"act": np.zeros(2)}, {"rew": 1j},
                {"terminated": np.zeros(3, bool)}, {"truncated": None}, {"obs.pos": np.zeros(3)},
                {"obs.pos": np.full(2, 1e400 * 1j)}, {"obs.inner.id": {"deeper": 1}},
                {"obs.inner.id": 0.5, "new.inner": 1}, {"obs.inner": 1, "obs.inner.id": None},
            ]
        ),
        missing=st.none() | st.sampled_from(["act", "rew", "terminated", "truncated"]),
    )  # fmt: skip
    def add_what_does_not_fit(self, ends, wrong, missing):
        good = as_batch(self.a_row(0, *ends))
        if missing is None:
            bad = self._spoilt(good, wrong)
        else:
            bad = Batch({name: given for name, given in good.items() if name != missing})
        before = self._files()
        if self.vector:
            bad = Batch.stack([bad]) if missing is not None else self._spoilt(as_rows([self.a_row(0, *ends)]), wrong)
        with pytest.raises(errors.TypedBatchError):
            self.buffer.add(bad, buffer_ids=[0] if self.vector else None)
        assert self._files() == before

    def _spoilt(self, batch: Batch, wrong: dict[str, Any]) -> Batch:
        for path, given in wrong.items():
            *outer, name = path.split(".")
            place: Any = batch
            for step in outer:
                if step not in place:
                    place[step] = Batch()
                place = place[step]
            if not isinstance(place, Batch):
                continue
            place[name] = np.asarray(given)[None] if self.vector and isinstance(given, np.ndarray) else given
        return batch

    def _files(self) -> dict[str, bytes]:
        return {} if self.path is None else {one.name: one.read_bytes() for one in self.path.iterdir()}

    @rule()
    def pickle_round_trip(self):
        if self.path is not None:
            with pytest.raises(errors.StorageError):
                pickle.dumps(self.buffer)
            return
        self.buffer = self._copied(lambda: pickle.loads(pickle.dumps(self.buffer)))

    @rule(compression=st.sampled_from([None, "gzip", "lzf"]))
    def save_and_load(self, compression):
        file = Path(self.folder.name, "buffer.hdf5")
        self.buffer.save_hdf5(file, compression)
        loaded = self._copied(lambda: type(self.buffer).load_hdf5(file, **self.reward))
        assert os.listdir(self.folder.name).count("buffer.hdf5") == 1
        if self.path is None:
            self.buffer = loaded

    def _copied(self, copy: Any) -> Any:
        copied = copy()
        if self.model.slots():
            indices = self.buffer.sample_indices(5)
            assert copied.sample_indices(5).tolist() == indices.tolist()
            self.learn_goals(indices.tolist())
        self.check(copied)
        return copied

    @precondition(lambda self: self.path is not None and self.columns)
    @rule(flush=st.booleans())
    def open_again(self, flush):
        if flush:
            self.buffer.flush()
        cls, self.buffer = type(self.buffer), None
        self.buffer, self.goals = cls.open(self.path, **self.reward), {}

    # ---- what is read ---------------------------------------------------------------------------------------------

    @rule(batch_size=st.integers(-1, 9) | st.none())
    def sample(self, batch_size):
        slots = self.model.slots()
        if not slots and (batch_size is None or batch_size >= 0):
            with pytest.raises(errors.EmptyBufferError):
                self.buffer.sample(batch_size)
            return
        if not self.columns:
            return
        sampled, indices = self.buffer.sample(batch_size)
        assert set(indices.tolist()) <= set(slots)
        if batch_size == 0:
            assert indices.tolist() == slots
        else:
            assert len(indices) == (len(slots) if batch_size is None else max(batch_size, 0))
        self.learn_goals(indices.tolist())
        self.check_rows(sampled, indices.tolist())

    @precondition(lambda self: self.hindsight and self.model.slots())
    @rule(data=st.data())
    def rewrite_transitions(self, data):
        slots = data.draw(st.lists(st.sampled_from(self.model.slots()), max_size=5))
        given = np.array(slots, int)
        for _ in range(5):
            self.buffer.rewrite_transitions(given)
            self.learn_goals(slots)
        assert given.tolist() == slots

    def learn_goals(self, slots: list[int]) -> None:
        """Check that goals drawn for some slots are achieved later in their episodes, and expect them from now on."""
        self.goals = {}
        if not self.hindsight:
            return
        for slot in dict.fromkeys(slots):
            ahead = [slot]
            while (after := self.model.neighbour(ahead[-1], 1)) != ahead[-1]:
                ahead = [*ahead, after]
            goal = self.buffer[slot].obs.desired_goal.ravel()[-1]
            assert {1.0: goal == OWN, float("inf"): goal != OWN}.get(self.future_k, True)
            assert goal == OWN or [goal] in [self.achieved(one) for one in ahead[: self.horizon]]
            if goal != OWN:
                self.goals[slot] = goal

    def achieved(self, slot: int) -> Any:
        """Return the goal that a row achieves."""
        rows = self.model.rows()
        if self.ignore_obs_next:
            return rows[self.model.neighbour(slot, 1)]["obs.achieved_goal"]
        return rows[slot]["obs_next.achieved_goal"]

    @precondition(lambda self: self.model.slots())
    @rule(data=st.data(), count=st.integers(1, 4) | st.none())
    def get(self, data, count):
        slots = data.draw(st.lists(st.sampled_from(self.model.slots()), min_size=1, max_size=4))
        name = data.draw(st.sampled_from(["act", "rew", "done", "obs"]))
        path = "obs.pos" if name == "obs" else name
        for index in (slots, slots[0]):
            got = self.buffer.get(np.array(index), name, stack_num=count)
            expected = self.column(path, index if isinstance(index, list) else [index], count or self.stack)
            got = leaf(Batch(obs=got), path) if name == "obs" else got
            np.testing.assert_array_equal(got, expected if isinstance(index, list) else expected[0])

    @precondition(lambda self: self.model.slots())
    @rule(data=st.data())
    def read_one_slot(self, data):
        slot = data.draw(st.sampled_from(self.model.slots()))
        self.check_rows(Batch.stack([self.buffer[slot]]), [slot])

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def read_where_there_is_no_row(self, data):
        free = sorted(set(range(self.buffer.maxsize + 2)) - set(self.model.slots()))
        with pytest.raises(errors.RowIndexError):
            self.buffer[np.array([data.draw(st.sampled_from(free))])]

    # ---- how it is compared ---------------------------------------------------------------------------------------

    @invariant()
    def is_like_the_model(self):
        if hasattr(self, "model"):
            self.check(self.buffer)

    def check(self, buffer: Any) -> None:
        slots, model = self.model.slots(), self.model
        assert len(buffer) == len(slots)
        assert buffer.maxsize == sum(ring.capacity for ring in model.rings)
        assert buffer.unfinished_index().tolist() == model.unfinished()
        assert buffer.last_index.tolist() == [ring.rows[-1][0] if ring.rows else ring.offset for ring in model.rings]
        if not self.columns:
            with pytest.raises(errors.EmptyBufferError):
                buffer[:]
            return
        if not self.hindsight:  # this draws other goals
            assert buffer.sample_indices(0).tolist() == slots
        assert buffer.prev(np.array(slots, int)).tolist() == [model.neighbour(slot, -1) for slot in slots]
        assert buffer.next(np.array(slots, int)).tolist() == [model.neighbour(slot, 1) for slot in slots]
        self.check_rows(buffer[:], slots)
        for path in ("obs.desired_goal", "rew") if self.hindsight and slots else ():
            np.testing.assert_array_equal(leaf(buffer, path)[slots], self.column(path, slots, 1), err_msg=path)
        if self.prioritized:
            stored = [self.priorities.get(slot, 0.0) ** ALPHA for slot in range(buffer.maxsize)]
            np.testing.assert_allclose(buffer.weight[np.arange(buffer.maxsize)], stored)
            np.testing.assert_allclose(buffer.weight.reduce(), sum(stored))

    def check_parts(self) -> None:
        """Each ring is a buffer of its own, which shares its rows with the whole."""
        for part, ring in zip(self.buffer.buffers, self.model.rings, strict=True):
            assert len(part) == len(ring.rows)
            assert part[:].act.tolist() == [one["act"] for _, one in ring.rows]
        if self.cached:
            assert self.buffer.main_buffer[:].act.tolist() == [one["act"] for _, one in self.model.rings[0].rows]

    def column(self, path: str, slots: list[int], frames: int, of: list[int] | None = None) -> Any:
        """Return the values of some rows in a field, read with the goals of those rows or of others."""
        rows, read = self.model.rows(), []
        for slot, goal in zip(slots, map(self.goals.get, of or slots), strict=True):
            there = self.model.frames(slot, frames)
            if goal is not None and path.endswith("desired_goal"):
                read.append([[goal]] * len(there))
            elif goal is not None and path == "rew":
                read.append([distance(self.achieved(frame), [goal]) for frame in there])
            else:
                read.append([value(rows[frame], path) for frame in there])
        return np.array(read if frames > 1 else [frame[0] for frame in read])

    def check_rows(self, batch: Any, slots: list[int]) -> None:
        names = {"obs.pos", "obs.inner.id", "act", "rew", "terminated", "truncated", "done"} | self.columns
        for path in names if slots else ():
            source, wanted = path, slots
            if self.ignore_obs_next and path.startswith("obs_next"):
                source, wanted = path.replace("obs_next", "obs"), [self.model.neighbour(slot, 1) for slot in slots]
            expected = self.column(source, wanted, self.stack if path.startswith("obs") else 1, slots)
            np.testing.assert_array_equal(leaf(batch, path), expected, err_msg=path)
        if "info.text" in names:
            assert {type(text) for text in leaf(batch, "info.text")} <= {str, type(None)}
        for path in names:
            assert len(leaf(batch, path)) == len(slots)
        assert batch.done.dtype == bool
        assert [is_done(self.model.rows()[slot]) for slot in slots] == batch.done.tolist()
        if self.prioritized and slots:
            weights = np.array([(self.priorities[slot] / self.lowest) ** (-ALPHA * BETA) for slot in slots])
            assert batch.weight.shape == (len(slots),)
            np.testing.assert_allclose(batch.weight / batch.weight.max(), weights / weights.max())


TestBuffers = pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")(Buffers.TestCase)
TestBuffers.settings = settings(max_examples=settings().max_examples, stateful_step_count=25, deadline=None)
