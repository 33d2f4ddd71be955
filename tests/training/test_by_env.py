"""Rollouts by environment and time, and the optional columns that a collector adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch import Tensor

from tests.training.environments import MODES, Count, in_processes, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, RolloutBatch, convert, errors, extend
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import ByEnv, Collector, ObsStateBatch, by_env


class Placed(RolloutBatch):
    env_id: NDArray[np.int64]
    t: NDArray[np.int64]


class Remembered(RolloutBatch):
    t: NDArray[np.int64]
    state_in: Any


def counting(batch: ObsStateBatch) -> ActStateBatch:
    """A policy whose state is the number of the step in the episode; it overwrites the state that it gets."""
    after = batch.state + 1
    batch.state[:] = -1
    return ActStateBatch(act=np.zeros(len(batch.obs), np.int64), state=after)


@pytest.mark.parametrize("mode", MODES)
def test_each_row_has_its_environment_and_its_step(mode):
    collector = Collector(sync(Count(3), Count(5, cut=True), mode=mode), zeros, rollout=Placed)
    for _ in range(3):
        rollout = collector.rollout(14)
        assert type(rollout) is Placed
        assert rollout.env_id.dtype == rollout.t.dtype == np.int64
        assert rollout.env_id.tolist() == sorted(rollout.env_id.tolist())
        assert rollout.t.tolist() == (rollout.obs[:, 0] % 100).astype(int).tolist()
    assert rollout.t[0] != 0, "steps are counted through several rollouts"


def test_columns_in_other_processes_and_after_a_reset():
    envs = in_processes(Count(30), Count(30))
    try:
        collector = Collector(envs, zeros, rollout=Placed)
        collector.rollout(10)
        collector.reset()
        assert collector.rollout(4).t.tolist() == [0, 1, 0, 1]
        assert collector.rollout(4).t.tolist() == [2, 3, 2, 3]
    finally:
        envs.close()


@pytest.mark.parametrize("n_step", [1, 6, 600])
def test_columns_go_into_buffers(n_step):
    buffer = VectorReplayBuffer[Placed](1200, 2)
    collector = Collector(sync(Count(3), Count(5)), zeros, rollout=Placed)
    collector.collect(buffer, n_step)
    collector.collect(buffer, n_step)
    rows = buffer[:]
    assert (rows.t == rows.obs[:, 0] % 100).all()
    assert sorted(set(rows.env_id.tolist())) == [0, 1]
    assert len(rows) == 4 * (-(-n_step // 2))


def test_rows_and_whole_episodes():
    rows, envs = Collector(sync(Count(3), Count(5)), zeros, rollout=Placed).rows(n_episode=4)
    assert rows.env_id.tolist() == envs.tolist()
    assert np.bincount(rows.env_id).tolist() == [6, 10]
    assert (rows.t == rows.obs[:, 0] % 100).all()


@pytest.mark.parametrize("mode", MODES)
def test_the_state_is_that_which_the_policy_got(mode):
    envs = sync(Count(3), Count(5, cut=True), mode=mode)
    collector = Collector(envs, counting, state=np.int64(0), rollout=Remembered)
    for _ in range(3):
        rollout = collector.rollout(14)
        assert rollout.state_in.tolist() == rollout.t.tolist()


def test_record_gets_the_columns_and_nested_states_are_stored():
    def policy(batch: ObsStateBatch) -> ActStateBatch[Tensor]:
        state = Batch(h=batch.state.h + 1, c=batch.state.c)
        return ActStateBatch[Tensor](act=torch.zeros(2, dtype=torch.int64), state=state)

    class Steps(RolloutBatch[Tensor]):
        t: Tensor
        state_in: Any
        state_out: Any

    def record(rollout: Remembered, out: ActStateBatch[Tensor]) -> Steps:
        assert type(rollout) is Remembered
        return extend(convert(rollout, RolloutBatch[Tensor]), Steps, state_out=out.state)

    state = Batch(h=torch.zeros(3), c=torch.ones(2))
    rollout = Collector(sync(Count(3), Count(5)), policy, record, state=state, rollout=Remembered).rollout(8)
    assert rollout.t.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    assert rollout.state_in.h[:, 0].tolist() == rollout.t.tolist()
    assert (rollout.state_out.h == rollout.state_in.h + 1).all()
    assert rollout.state_in.c.shape == (8, 2)


def test_a_state_of_another_kind_is_named():
    def policy(batch: ObsStateBatch) -> ActStateBatch:
        return ActStateBatch(act=np.zeros(1, np.int64), state=torch.zeros(1))

    with pytest.raises(errors.StructureError, match=r"field 'state_in': expected f64.* as in the steps before, got "):
        Collector(sync(Count(3)), policy, state=np.zeros(()), rollout=Remembered).rollout(4)


def test_classes_that_no_collector_fills():
    class Other(RolloutBatch):
        env: NDArray[np.int64]

    class Policy(ActBatch):
        pass

    envs = sync(Count(3))
    with pytest.raises(errors.SettingError, match=r"Other\.env, but a collector adds only env_id, t, state_in"):
        Collector(envs, zeros, rollout=Other)
    with pytest.raises(errors.SettingError, match=r"Remembered\.state_in, but the policy has no state; pass its init"):
        Collector(envs, zeros, rollout=Remembered)
    for wrong in (Policy, 3, "Placed", None):
        with pytest.raises(errors.SettingError, match="rollout= must be a subclass of RolloutBatch, got "):
            Collector(envs, zeros, rollout=wrong)
    assert type(Collector(envs, zeros, rollout=RolloutBatch[Any, Any]).rollout(2)) is RolloutBatch


def test_environments_may_have_fewer_rows_than_others():
    envs = sync(Count(3), Count(50), mode=AutoresetMode.NEXT_STEP)
    rollout = Collector(envs, zeros, rollout=Placed).rollout(16)
    assert len(rollout) == 14
    grouped = by_env(rollout)
    assert type(grouped) is ByEnv
    assert type(grouped.batch) is Placed
    assert grouped.batch.obs.shape == (2, 8, 1)
    assert grouped.mask.sum(1).tolist() == [6, 8]
    assert grouped.batch.obs[0, :, 0].tolist() == [100, 101, 102, 200, 201, 202, 0, 0]
    assert grouped.batch.env_id[:, 0].tolist() == [0, 1]
    assert grouped.rows[0].tolist() == [0, 1, 2, 3, 4, 5, -1, -1]
    assert (grouped.flat(grouped.batch.obs) == rollout.obs).all()


@pytest.mark.parametrize("torch_side", [False, True])
def test_rows_in_any_order_of_environments_come_back_in_that_order(torch_side):
    env_id = np.array([5, 2, 5, 9, 2, 5])
    batch = Placed(
        obs=np.arange(6.0), obs_next=np.zeros(6), act=np.zeros(6), rew=np.zeros(6), terminated=np.zeros(6, bool),
        truncated=np.zeros(6, bool), info=Batch(), env_id=env_id, t=np.zeros(6, np.int64),
    )  # fmt: skip
    grouped = by_env(batch.to_torch() if torch_side else batch)
    assert grouped.batch.obs.tolist() == [[1, 4, 0], [0, 2, 5], [3, 0, 0]]
    assert grouped.flat(grouped.batch.obs).tolist() == [0, 1, 2, 3, 4, 5]
    assert grouped.flat(np.zeros((3, 3, 0, 2))).shape == (6, 0, 2)


def test_gradients_pass_through_flat():
    grouped = by_env(Collector(sync(Count(3), Count(5)), zeros, rollout=Placed).rollout(8))
    values = torch.ones(2, 4, 3, requires_grad=True)
    grouped.flat(values).sum().backward()
    assert values.grad is not None
    assert (values.grad == 1).all()


def test_an_empty_rollout():
    rollout = Collector(sync(Count(3)), zeros, rollout=Placed).rollout(3)[:0]
    grouped = by_env(rollout)
    assert grouped.mask.shape == (0, 0)
    assert grouped.flat(grouped.batch.obs).shape == (0, 1)


def test_what_cannot_be_arranged():
    rollout = Collector(sync(Count(3), Count(5)), zeros, rollout=Placed).rollout(8)
    with pytest.raises(errors.StructureError, match=r"shape \[2, 4, \.\.\.\] are expected, as batch has, got f64"):
        by_env(rollout).flat(np.zeros((4, 2)))
    with pytest.raises(errors.MissingFieldError, match="no field 'env_id'"):
        by_env(Collector(sync(Count(3)), zeros).rollout(3))
    with pytest.raises(errors.LeafError, match=r"by_env\(\) takes a Batch"):
        by_env({"env_id": np.zeros(3)})
    rollout.env_id = np.zeros((8, 2), np.int64)
    with pytest.raises(errors.StructureError, match="environments are identified by one value for each of 8 rows"):
        by_env(rollout)
