"""Goals in hindsight: what is read with another goal, for how long, and that nothing of it is stored."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from tests.buffers.helpers import (
    Step,
    assert_same,
    distance,
    filled,
    goal_transitions,
    goals,
    held,
    transition,
    transitions,
)
from typedbatch import Batch, errors
from typedbatch.buffers import HERReplayBuffer, HERVectorReplayBuffer, ReplayBuffer, compute_nstep_return
from typedbatch.buffers.state import state_of
from typedbatch.errors import RowAssignmentError, RowIndexError
from typedbatch.training import add_nstep

ALWAYS = float("inf")
"""``future_k`` with which every episode gets another goal."""
OWN = -1.0
"""The goal that rows are stored with."""


def reached(step: Step) -> float:
    """The goal that a row reaches with its action; different for each row."""
    return 100.0 * step.ring + step.number + 1


def reached_as_read(step: Step, ring: list[Step], ignore_obs_next: bool) -> float:
    """The same, as far as the buffer knows: without ``obs_next`` the last row of an episode has not moved."""
    if not ignore_obs_next:
        return reached(step)
    following = ring[ring.index(step) + 1 :][:1]
    return reached(step) - 1 if step.done or not following else reached(following[0]) - 1


def goal_rows(steps: list[Step]) -> Batch:
    """Rows of a walk, each of which begins where the one before has ended."""
    ends = np.array([reached(step) for step in steps])
    flags = {name: np.array([getattr(step, name) for step in steps]) for name in ("terminated", "truncated")}
    rew = distance(ends[:, None], OWN)
    return Batch(obs=goals(ends - 1, OWN), obs_next=goals(ends, OWN), act=ends, rew=rew, **flags)


def hindsight(rings: int, capacity: int, horizon: int = 30, **options: Any) -> Any:
    if rings == 1:
        return HERReplayBuffer(capacity, distance, horizon, **options)
    return HERVectorReplayBuffer(capacity * rings, rings, distance, horizon, **options)


def walked(count: int, horizon: int = 30, size: int = 20, **options: Any) -> HERReplayBuffer:
    """One finished episode, whose row ``i`` goes from ``i`` to ``i + 1``."""
    buffer = HERReplayBuffer(size, distance, horizon, **{"future_k": ALWAYS, **options})
    for i in range(count):
        buffer.add(goal_transitions([i], terminated=i == count - 1), buffer_ids=[0])
    return buffer


def stored_rows(buffer: Any) -> Batch:
    """Return the stored rows, by moving them to another buffer."""
    other = ReplayBuffer(buffer.maxsize, ignore_obs_next=not state_of(buffer).save_obs_next)
    other.update(buffer)
    return other[:]


def goal_of(batch: Any) -> list[float]:
    return batch.obs.desired_goal.ravel().tolist()


@pytest.mark.parametrize("horizon", [3, 30])
def test_each_later_step_within_the_horizon_comes_up_as_a_goal(horizon):
    buffer = walked(5, horizon)
    seen: dict[int, set[float]] = {}
    for slot in range(5):
        for _ in range(60):
            buffer.rewrite_transitions(np.array([slot]))
            seen.setdefault(slot, set()).update(goal_of(buffer[[slot]]))
    assert seen == {slot: {float(goal) for goal in range(slot + 1, min(6, slot + 1 + horizon))} for slot in range(5)}


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize("rings", [1, 2])
@pytest.mark.parametrize("ignore_obs_next", [False, True])
def test_returns_over_n_steps_see_the_new_rewards(rings, ignore_obs_next):
    buffer = hindsight(rings, 9, future_k=2.0, ignore_obs_next=ignore_obs_next)
    kept = filled(buffer, 25, 3, goal_rows)
    for _ in range(10):
        batch, slots = buffer.sample(12)
        q = np.arange(buffer.maxsize) * 10.0
        out = compute_nstep_return(batch, buffer, slots, lambda _, asked, q=q: q[asked], 0.5, 3)
        for place, slot in enumerate(slots.tolist()):
            ring = next(ring for ring in kept if any(step.slot == slot for step in ring))
            at, goal, total = next(i for i, step in enumerate(ring) if step.slot == slot), goal_of(batch[place])[0], 0.0
            for i in range(3):
                step = ring[at + i]
                last = step.done or at + i == len(ring) - 1
                # the goal is that of all the rows behind, so their rewards are those for it
                end = reached(step) if goal == OWN else reached_as_read(step, ring, ignore_obs_next)
                total += 0.5**i * distance(np.array([end]), goal)
                if last:
                    break
            expected = total + (0.0 if step.terminated else 0.5 ** (i + 1) * q[step.slot])
            assert out.returns[place] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rings", [1, 2])
def test_goals_are_spread_evenly_over_the_steps_from_each_row_on(rings):
    buffer = hindsight(rings, 120, horizon=99, future_k=ALWAYS, random_seed=0)
    for i in range(120):
        numbers = [100.0 * ring + i for ring in range(rings)]
        buffer.add(goal_transitions(numbers, terminated=i % 12 == 11), buffer_ids=[*range(rings)])
    places: list[list[float]] = [[] for _ in range(12)]
    for _ in range(40):
        batch, slots = buffer.sample(256)
        for slot, goal, own in zip(slots.tolist(), goal_of(batch), batch.act.tolist(), strict=True):
            places[slot % 12].append(goal - own - 1)
    for i, steps in enumerate(places):
        counts = np.bincount(np.array(steps, int), minlength=12 - i)
        assert len(counts) == 12 - i
        assert (np.abs(counts / len(steps) - 1 / (12 - i)) < 5 * (len(steps) * (12 - i)) ** -0.5).all()


def test_rows_of_an_episode_keep_or_lose_their_goals_by_themselves():
    buffer = walked(18, future_k=2.0)
    kept = [(np.array(goal_of(buffer.sample(0)[0])) == OWN).sum() for _ in range(40)]
    assert 0.45 < np.mean(kept) / 18 < 0.55
    assert len(set(kept)) > 5


READS: dict[str, Any] = {
    "rows": lambda buffer, slots: buffer[slots].obs_next,
    "get": lambda buffer, slots: buffer.get(slots, "obs_next"),
}


@pytest.mark.parametrize("way", ["add_nstep", "add_nstep with its own get", *READS])
@pytest.mark.parametrize(("stack_num", "ignore_obs_next"), [(1, False), (3, False), (1, True), (3, True)])
@pytest.mark.parametrize("reaching", [False, True])
def test_rows_look_ahead_with_their_own_goals(way, stack_num, ignore_obs_next, reaching):
    class OwnGet(HERReplayBuffer):
        def get(self, *args, **kwargs):
            return super().get(*args, **kwargs)

    if way == "get" and ignore_obs_next:
        pytest.skip("it has no such column")
    functions = {"compute_terminated_fn": reaches} if reaching else {}
    cls: Any = OwnGet if "own" in way else HERReplayBuffer
    buffer = cls(9, distance, 30, 2.0, stack_num=stack_num, ignore_obs_next=ignore_obs_next, **functions)
    for i in range(16):
        buffer.add(goal_transitions([i], terminated=i in (3, 15)), buffer_ids=[0])
    seen: list[Any] = []

    def value(obs: Any) -> Any:
        seen.append(obs.desired_goal.reshape(10, -1))
        return obs.achieved_goal.reshape(10, -1)[:, -1] * 10.0

    for _ in range(20):
        batch, slots = buffer.sample(10)
        goal = batch.obs.desired_goal.reshape(10, -1)
        if way in READS:
            out = compute_nstep_return(batch, buffer, slots, lambda b, at: value(READS[way](b, at)), 0.5, 3)
        else:
            out = add_nstep(batch, buffer, slots, value, gamma=0.5, n=3)
        assert (seen[-1] == goal).all()
        for row, own in enumerate(batch.act.tolist()):
            wanted, total = goal[row, -1], 0.0
            for k in range(3):
                at = own + k
                end = at if ignore_obs_next and at == 15 else at + 1
                stored = wanted == OWN
                total += 0.5**k * distance(np.array([at + 1.0 if stored else end]), wanted)
                terminated = at == 15 if stored or not reaching else end == wanted
                if at == 15 or terminated:
                    break
            expected = total + (0 if terminated else 0.5 ** (k + 1) * 10 * end)
            assert out.returns[row] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rings", [1, 2])
def test_rows_of_an_episode_share_a_goal_where_that_is_asked_for(rings):
    buffer = hindsight(rings, 12, horizon=2, future_k=2.0)
    kept = filled(buffer, 30, 3, goal_rows)
    for _ in range(20):
        slots = buffer.sample_indices(6)
        buffer.rewrite_transitions(slots, per_episode=True)
        goal = dict(zip(slots.tolist(), goal_of(buffer[slots]), strict=True))
        for ring in kept:
            for episode in np.split(np.array(ring, object), [i + 1 for i, row in enumerate(ring) if row.done]):
                rows = [row for row in episode if row.slot in goal]
                shared = {goal[row.slot] for row in rows}
                assert len(shared) <= 1
                later = [reached(row) for row in episode if rows and row.number >= rows[-1].number]
                assert shared <= {OWN, *later[:2]}


def test_a_column_is_read_with_the_goal_of_the_row_that_looks_ahead_to_it():
    buffer = walked(9, future_k=2.0)
    for _ in range(20):
        batch, slots = buffer.sample(1)
        read: list[float] = []

        def value(buffer: Any, at: Any, read: list[float] = read) -> Any:
            read[:] = buffer.obs_next.desired_goal[at][:, 0].tolist()
            return np.zeros(1)

        compute_nstep_return(batch, buffer, slots, value, 0.5, 3)
        assert read == goal_of(batch)


def test_rows_that_go_elsewhere_go_with_the_goals_that_are_stored():
    buffer = walked(5)
    before = stored_rows(buffer)
    buffer.sample(0)
    for other in (ReplayBuffer(9), HERReplayBuffer(9, distance, 9)):
        other.update(buffer)
        assert_same(other[:], before)
    dropped = copy.deepcopy(buffer)
    dropped.dropnull()
    assert goal_of(stored_rows(dropped)) == [OWN] * 5


def test_a_row_added_to_a_ring_reads_with_its_own_goal():
    buffer = HERVectorReplayBuffer(4, 2, distance, 4, future_k=ALWAYS)
    for i in range(2):
        buffer.add(goal_transitions([i, i + 100], terminated=i == 1))
    buffer.sample(0)
    row = goal_transitions([50], obs=goals([50], 77.0), obs_next=goals([51], 77.0), rew=np.array([-26.0]))
    assert buffer.buffers[0].add(row[0]).slots.tolist() == [0]
    assert goal_of(buffer.buffers[0][0]) == [77.0]
    assert goal_of(buffer[0]) == [77.0]
    assert buffer[0].rew == -26.0


def test_rings_read_with_the_goals_that_are_stored():
    buffer = HERVectorReplayBuffer(4, 2, distance, 4, future_k=ALWAYS)
    for i in range(2):
        buffer.add(goal_transitions([i, i + 100], terminated=i == 1))
    buffer.sample(0)
    assert OWN not in goal_of(buffer[:])
    assert goal_of(buffer.buffers[0][:]) == goal_of(buffer.buffers[1][:]) == [OWN, OWN]


def test_rewards_are_not_rounded_on_the_way():
    def third(achieved: Any, desired: Any) -> Any:
        return -np.abs(achieved - desired).sum(-1) / 3 + 0.1

    buffer = HERReplayBuffer(9, third, 9, future_k=2.0)
    for i in range(9):
        fields = {"obs": goals([i / 7], 0.3), "obs_next": goals([i / 7 + 0.1], 0.3), "rew": np.array([i / 3])}
        buffer.add(transitions([i], terminated=i % 3 == 2, **fields), buffer_ids=[0])
    before = stored_rows(buffer)
    for _ in range(20):
        batch, _ = buffer.sample(9)
        recomputed = third(batch.obs_next.achieved_goal, batch.obs.desired_goal)
        own = batch.obs.desired_goal[:, 0] == 0.3
        assert batch.rew[~own].tolist() == recomputed[~own].tolist()
        assert batch.rew[own].tolist() == (batch.act[own] / 3).tolist()
    buffer.sample_indices(-1)
    assert_same(buffer[:], before)


def test_rewards_and_goals_keep_their_dtype():
    def rows(i: int) -> Batch:
        obs, obs_next = ({k: v.astype(np.float32) for k, v in goals([at], OWN).items()} for at in (i, i + 1))
        return transitions([i], terminated=i == 3, obs=obs, obs_next=obs_next, rew=np.zeros(1, np.float32))

    buffer = HERReplayBuffer(9, distance, 9, future_k=ALWAYS)
    for i in range(4):
        buffer.add(rows(i), buffer_ids=[0])
    batch, _ = buffer.sample(0)
    assert batch.rew.dtype == batch.obs.desired_goal.dtype == batch.obs_next.desired_goal.dtype == np.float32
    assert batch.rew.tolist() == (np.arange(1, 5) - goal_of(batch)).tolist()
    assert buffer[0].rew.dtype == np.float32


def test_goals_may_have_more_dimensions():
    def far(achieved: Any, desired: Any) -> Any:
        assert achieved.shape[1:] == desired.shape[1:] == (2, 3)
        return -np.abs(achieved - desired).max((1, 2))

    buffer = HERReplayBuffer(9, far, 9, future_k=ALWAYS)
    for i in range(4):
        obs, obs_next = (
            {"achieved_goal": np.full((2, 3), float(at)), "desired_goal": np.zeros((2, 3))} for at in (i, i + 1)
        )
        buffer.add(Batch(obs=obs, obs_next=obs_next, act=i, rew=0.0, terminated=i == 3, truncated=False))
    batch, _ = buffer.sample(0)
    goal = batch.obs.desired_goal
    assert (goal == goal[:, :1, :1]).all()
    assert (goal > 0).all()
    assert batch.rew.tolist() == (np.arange(1, 5) - goal[:, 0, 0]).tolist()


@pytest.mark.parametrize("tensors", ["goals", "goals and rewards"])
def test_goals_may_be_tensors(tensors):
    buffer = HERReplayBuffer(9, lambda achieved, desired: -(achieved - desired).abs().sum(-1), 9, future_k=ALWAYS)
    for i in range(4):
        obs, obs_next = (
            {"achieved_goal": torch.tensor([float(at)]), "desired_goal": torch.tensor([OWN])} for at in (i, i + 1)
        )
        rew = torch.tensor(0.0) if "rewards" in tensors else 0.0
        buffer.add(Batch(obs=obs, obs_next=obs_next, act=i, rew=rew, terminated=i == 3, truncated=False))
    batch, _ = buffer.sample(0)
    assert OWN not in goal_of(batch)
    assert batch.rew.tolist() == (np.arange(1, 5) - goal_of(batch)).tolist()
    assert type(batch.rew) is (torch.Tensor if "rewards" in tensors else np.ndarray)
    assert buffer[1].rew == batch.rew[1]
    assert goal_of(buffer[1]) == goal_of(batch)[1:2]


def reaches(achieved: Any, desired: Any) -> Any:
    return (achieved == desired)[:, 0]


def test_rows_that_reach_another_goal_are_terminated_and_others_are_not():
    buffer = walked(5, compute_terminated_fn=reaches)
    for _ in range(20):
        batch, slots = buffer.sample(4)
        expected = (slots + 1 == batch.obs.desired_goal[:, 0]).tolist()
        assert batch.terminated.tolist() == expected
        assert buffer.terminated[slots].tolist() == expected
        assert buffer.get(slots, "done").tolist() == (np.array(expected) | (slots == 4)).tolist()
    assert stored_rows(buffer).terminated.tolist() == [False] * 4 + [True]
    buffer.add(goal_transitions([9]), buffer_ids=[0])
    assert buffer[:].terminated.tolist() == [False] * 4 + [True, False]


@pytest.mark.parametrize("tensors", [False, True])
def test_returns_over_n_steps_stop_where_another_goal_is_reached(tensors):
    buffer = HERReplayBuffer(20, distance, 30, future_k=ALWAYS, compute_terminated_fn=reaches)
    for i in range(6):
        row = goal_transitions([i], terminated=i == 5)[0]
        row["terminated"] = torch.tensor(i == 5) if tensors else row.terminated
        buffer.add(row)
    seen = set()
    for _ in range(30):
        batch, slots = buffer.sample(3)
        out = compute_nstep_return(batch, buffer, slots, lambda _, ahead: np.full(len(ahead), 1000.0), 0.5, 3)
        for slot, goal, returns in zip(slots.tolist(), goal_of(batch), out.returns.tolist(), strict=True):
            expected = factor = 0.0
            for step, at in enumerate(range(slot, min(slot + 3, 6))):
                expected, factor = expected + 0.5**step * -abs(at + 1 - goal), 0.5 ** (step + 1)
                if at + 1 == goal:
                    factor = 0.0
                    break
            assert returns == pytest.approx(expected + factor * 1000)
            seen.add(factor)
    assert seen == {0.0, 0.125} | (seen & {0.25, 0.5})


@pytest.mark.parametrize("wrong", [lambda a, d: np.zeros(len(a)), lambda a, d: a == d, lambda a, d: True])
def test_a_function_of_flags_gives_one_bool_for_each_row(wrong):
    buffer = walked(4, compute_terminated_fn=wrong)
    with pytest.raises(
        RowAssignmentError, match=r"'terminated': compute_terminated_fn must return flags \(bool\) of shape"
    ):
        buffer.sample(4)
    assert goal_of(buffer[:]) == [OWN] * 4
    with pytest.raises(
        errors.LeafError, match="compute_terminated_fn is a function of achieved and desired goals, got int"
    ):
        walked(4, compute_terminated_fn=3)


@pytest.mark.parametrize("how", ["folder", "file", "copy"])
def test_the_function_is_given_again_where_the_buffer_is_opened(how, tmp_path):
    path = tmp_path / "buffer"
    buffer = walked(4, compute_terminated_fn=reaches, **({"path": path} if how == "folder" else {}))
    functions: Any = {"compute_reward_fn": distance, "compute_terminated_fn": reaches}
    if how == "folder":
        buffer.close()
        again = HERReplayBuffer.open(path, **functions)
    elif how == "file":
        buffer.save_hdf5(path)
        again = HERReplayBuffer.load_hdf5(path, **functions)
    else:
        again = copy.deepcopy(buffer)
    batch, slots = again.sample(10)
    assert batch.terminated.tolist() == (slots + 1 == batch.obs.desired_goal[:, 0]).tolist()


WRONG: dict[str, Any] = {
    "a column": lambda achieved, desired: -np.abs(achieved - desired),
    "one for all": lambda achieved, desired: -1.0,
    "one too few": lambda achieved, desired: np.zeros(len(achieved) - 1),
    "text": lambda achieved, desired: np.array(["a"] * len(achieved)),
    "complex": lambda achieved, desired: np.zeros(len(achieved), complex),
    "none": lambda achieved, desired: None,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_reward_function_gives_one_number_for_each_row(wrong):
    buffer = HERReplayBuffer(9, WRONG[wrong], 9, future_k=ALWAYS)
    for i in range(4):
        buffer.add(goal_transitions([i]), buffer_ids=[0])
    with pytest.raises(errors.RowAssignmentError, match=r"rew.*compute_reward_fn|compute_reward_fn.*rew"):
        buffer.sample(4)
    assert goal_of(buffer[:]) == [OWN] * 4
    buffer.compute_reward_fn = distance
    assert OWN not in goal_of(buffer.sample(4)[0])


def test_a_reward_function_that_fails_leaves_the_goals_that_are_stored():
    def fails(achieved: Any, desired: Any) -> Any:
        raise ZeroDivisionError

    buffer = walked(4)
    buffer.sample(0)
    buffer.compute_reward_fn = fails
    with pytest.raises(ZeroDivisionError):
        buffer.sample(4)
    assert goal_of(buffer[:]) == [OWN] * 4


def test_a_reward_function_cannot_write_into_the_buffer():
    def writes(achieved: Any, desired: Any) -> Any:
        achieved[:] = desired[:] = 99.0
        return np.zeros(len(achieved))

    buffer = walked(4)
    before = stored_rows(buffer)
    buffer.compute_reward_fn = writes
    buffer.sample(4)
    buffer.sample_indices(-1)
    assert_same(buffer[:], before)


@pytest.mark.parametrize("absent", ["achieved_goal", "desired_goal"])
@pytest.mark.parametrize("field", ["obs", "obs_next"])
def test_a_goal_that_is_missing_is_named(field, absent):
    rows = goal_transitions([0])
    del rows[field][absent]
    for buffer in (HERReplayBuffer(4, distance, 4), HERVectorReplayBuffer(4, 2, distance, 4)):
        with pytest.raises(errors.MissingFieldError, match=absent):
            buffer.add(rows, buffer_ids=[0])
        assert len(buffer) == 0
        buffer.add(goal_transitions([0]), buffer_ids=[0])
        assert len(buffer) == 1
    if field == "obs_next":
        buffer = HERReplayBuffer(4, distance, 4, ignore_obs_next=True)
        assert buffer.add(rows, buffer_ids=[0]).slots.tolist() == [0]


def test_observations_must_have_goals():
    for obs in (np.zeros((1, 2)), None):
        with pytest.raises(errors.LeafError, match="achieved_goal"):
            HERReplayBuffer(4, distance, 4).add(goal_transitions([0], obs=obs), buffer_ids=[0])
    rows = goal_transitions([0])
    del rows["obs_next"]
    with pytest.raises(errors.TypedBatchError, match="obs_next"):
        HERReplayBuffer(4, distance, 4).add(rows, buffer_ids=[0])


@pytest.mark.parametrize(
    ("horizon", "future_k"), [(0, 8.0), (-1, 8.0), (4, 0.5), (4, -1.0), (4, float("nan")), (float("nan"), 8.0)]
)
def test_settings_below_one_are_refused(horizon, future_k):
    with pytest.raises(errors.SizeError, match=r"horizon|future_k"):
        HERReplayBuffer(4, distance, horizon, future_k)
    with pytest.raises(errors.SizeError, match=r"horizon|future_k"):
        HERVectorReplayBuffer(4, 2, distance, horizon, future_k)


Array = np.ndarray[Any, np.dtype[Any]]


def goal_step(i: int, done: bool = False, goal: int = 99) -> Any:
    def obs(at: int) -> dict[str, Any]:
        return {"achieved_goal": np.array([float(at)]), "desired_goal": np.array([float(goal)])}

    return transition(i, done, obs=obs(i), obs_next=obs(i + 1), rew=0.0)


def met(achieved: Array, desired: Array) -> Array:
    return (achieved == desired).all(-1).astype(float)


class TestHindsight:
    def test_a_reward_function_cannot_change_goals_or_rewards_afterwards(self):
        kept: list[Array] = []

        def meddling(achieved: Array, desired: Array) -> Array:
            rew = met(achieved, desired)
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
        buffer = held(HERReplayBuffer(8, met, 4, 1e9), row)
        with pytest.raises(RowAssignmentError, match="achieved goals"):
            buffer.sample(1)

    def test_slots_without_rows_are_refused(self):
        buffer = held(HERReplayBuffer(8, met, 4, 1e9), *(goal_step(i) for i in range(3)))
        with pytest.raises(RowIndexError):
            buffer.rewrite_transitions(np.array([6]))
