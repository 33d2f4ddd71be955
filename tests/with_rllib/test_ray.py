"""Collectors in processes of Ray's, typed calls, Ray Data: on a local Ray."""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest
import ray
import torch
from numpy.typing import NDArray

from tests.training.environments import Count, sync
from typedbatch import (
    ActBatch,
    Batch,
    BatchRecord,
    BatchWithReturns,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    errors,
    extend,
)
from typedbatch.bridges.arrow import from_arrow
from typedbatch.bridges.ray import Actor, RayCollectors, from_batches, get, map_batches, remote, value_of
from typedbatch.buffers import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.training import Source, off_policy, on_policy

Array = NDArray[Any]


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    # the processes import the tests from where this one does
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths})
    yield
    ray.shutdown()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(1, 3)

    def act(self, batch):
        return ActBatch(act=self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy())

    def prefer(self, action: int) -> None:
        with torch.no_grad():
            self.net.weight.zero_()
            self.net.bias.copy_(torch.eye(3)[action])


def envs():
    return sync(Count(3), Count(5))


@pytest.fixture
def collectors():
    net = Net()
    made = RayCollectors(envs, net.act, 2, options={"num_cpus": 1})
    made.net = net
    yield made
    made.close()


def test_rollouts_of_all_workers_in_their_order(collectors):
    rollout = collectors.rollout(24)
    assert rollout.obs[:, 0].astype(int).tolist() == 2 * [100, 101, 102, 200, 201, 202, 100, 101, 102, 103, 104, 200]
    assert (rollout.obs_next == rollout.obs + 1).all()
    assert (collectors.last_stats.steps, collectors.last_stats.episodes, collectors.num_envs) == (24, 6, 4)


def test_workers_have_the_newest_weights(collectors):
    for action in (2, 0, 1, 1):
        collectors.net.prefer(action)
        assert set(collectors.rollout(8).act.tolist()) == {action}


class Snapshots(Net):
    """Gives copies of its weights, as one does that keeps them on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.more = torch.nn.Parameter(torch.zeros(500_000))  # large enough that its memory is given back

    def state_dict(self, *args, **kwargs):
        return {name: value.clone() for name, value in super().state_dict(*args, **kwargs).items()}

    def prefer_unseen(self, action: int) -> None:
        self.net.weight.data.zero_()  # which torch does not count
        self.net.bias.data.copy_(torch.eye(3)[action])


def test_workers_have_the_newest_of_weights_that_are_copied_or_written_to_unseen():
    net = Snapshots()
    made = RayCollectors(envs, net.act, 1)
    for prefer in (net.prefer, net.prefer_unseen):
        for action in (2, 0, 1, 2, 0):
            prefer(action)
            assert set(made.rollout(8).act.tolist()) == {action}
    made.close()
    plain = Net()
    made = RayCollectors(envs, plain.act, 1)
    for action in (2, 0, 1):
        plain.net.weight.data.zero_()
        plain.net.bias.data.copy_(torch.eye(3)[action])
        assert set(made.rollout(8).act.tolist()) == {action}
    made.close()


def test_it_fits_wherever_a_collector_does(collectors):
    source: Source[RolloutBatch] = collectors
    epochs = list(on_policy(source, lambda batch: {"rows": len(batch)}, n_step=16, epoch_steps=30, epochs=2))
    assert [(epoch.step, epoch.losses) for epoch in epochs] == [(32, {"rows": 16}), (64, {"rows": 16})]


def test_each_environment_of_each_worker_has_its_ring(collectors):
    buffer = VectorReplayBuffer(200, 4)
    collectors.reset(seed=1)
    for random in (True, False):
        assert collectors.collect(buffer, 40, random=random).steps == 40
    assert len(buffer) == 80
    assert (buffer[:].obs_next == buffer[:].obs + 1).all()
    assert [ring[:].obs[:3, 0].tolist() for ring in buffer.buffers] == [[100, 101, 102]] * 4
    with pytest.raises(errors.SettingError, match="a ring for each of 4 environments is expected"):
        collectors.collect(VectorReplayBuffer(20, 2), 4)


def test_episodes_in_equal_shares(collectors):
    buffer = VectorReplayBuffer(200, 4)
    stats = collectors.collect(buffer, n_episode=7)
    assert (stats.episodes, sorted(stats.lengths.tolist()), stats.steps) == (7, [3] * 4 + [5] * 3, len(buffer))
    assert [len(ring) for ring in buffer.buffers] == [6, 10, 6, 5]
    assert collectors.collect(buffer, n_episode=1).episodes == 1
    with pytest.raises(errors.SettingError, match="pass either n_step or n_episode"):
        collectors.collect(buffer, 4, 4)


def test_a_buffer_with_a_cache_is_filled_too(collectors):
    buffer = CachedReplayBuffer(ReplayBuffer(100), 4, 20)
    assert collectors.collect(buffer, n_episode=8).episodes == 8
    assert len(buffer) == 4 * (3 + 5)


def test_off_policy_training(collectors):
    buffer = VectorReplayBuffer(400, 4)

    def update(batch: RolloutBatch, slots: Array) -> dict[str, float]:
        return {"rows": len(batch)}

    made = off_policy(
        collectors, buffer, update,
        n_step=16, updates_per_step=0.25, batch_size=8, epoch_steps=32, epochs=2, warmup=20,
    )  # fmt: skip
    assert [(epoch.step, epoch.updates) for epoch in made] == [(32, 3), (64, 11)]


def kill_one(collectors) -> int:
    victim = collectors.pids()[0]
    os.kill(victim, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(victim, 0)
            time.sleep(0.05)
    return victim


def test_a_worker_that_died_is_replaced_by_whichever_call_comes_next(collectors):
    for _ in range(2):
        victim = kill_one(collectors)
        collectors.reset(seed=3)
        assert victim not in collectors.pids()
        victim = kill_one(collectors)
        pids = collectors.pids()
        assert victim not in pids
        assert len(pids) == 2
    assert len(collectors.rollout(8)) == 8
    assert collectors.last_stats.lost == 0


def test_a_worker_that_dies_is_replaced_and_its_steps_are_lost(collectors):
    collectors.rollout(8)
    kill_one(collectors)
    assert len(collectors.rollout(8)) == 4
    assert (collectors.last_stats.steps, collectors.last_stats.lost) == (4, 4)
    assert len(collectors.rollout(8)) == 8
    assert collectors.last_stats.lost == 0


def test_an_abandoned_episode_ends_where_it_was_left(collectors):
    buffer = VectorReplayBuffer(200, collectors.num_envs)
    cuts = []
    for before in (list, list, lambda: collectors.rollout(8), list, collectors.reset):
        before()
        collectors.collect(buffer, 8)
        cuts.append(int(buffer.truncated.sum()))
    assert cuts == [0, 0, 4, 4, 6], "when the environments begin anew, two of them have just ended their episodes"
    os.kill(collectors.pids()[0], signal.SIGKILL)
    while collectors.collect(buffer, 8).lost == 0:
        pass
    collectors.collect(buffer, 8)
    for ring in buffer.buffers:
        rows = ring[:]
        assert (rows.done[:-1] | (rows.obs[1:] == rows.obs_next[:-1])[:, 0]).all()


def test_an_environment_that_raises_is_named():
    made = RayCollectors(lambda: sync(Count(3), Count(5, fails_at=4)), Net().act, 1)
    with pytest.raises(errors.EnvironmentFailedError, match="environment 1 raised ValueError: the simulator is gone"):
        made.rollout(40)
    made.close()


def test_more_workers_than_this_ray_has_room_for_are_refused_before_anything_waits():
    text = (
        r"^5 workers need 5 CPU, but this Ray has 4, which is 1 too few; use fewer workers, give each less by options="
    )
    with pytest.raises(errors.SettingError, match=text):
        RayCollectors(envs, Net().act, 5)
    with pytest.raises(errors.SettingError, match=r"^2 workers need 6 CPU, but this Ray has 4, which is 2 too few"):
        RayCollectors(envs, Net().act, 2, options={"num_cpus": 3})
    with pytest.raises(errors.SettingError, match=r"^1 workers need 1 arm, but this Ray has 0, which is 1 too few"):
        RayCollectors(envs, Net().act, 1, options={"resources": {"arm": 1}})
    made = RayCollectors(envs, Net().act, 5, options={"num_cpus": 0.5})
    assert len(made.rollout(10)) == 10
    made.close()


def broken_envs():
    raise OSError("no display")


def test_environments_that_cannot_be_made(tmp_path):
    with pytest.raises(errors.EnvironmentFailedError, match=r"^make_envs\(\) raised OSError: no display$"):
        RayCollectors(broken_envs, Net().act, 2)
    with pytest.raises(
        errors.SettingError, match=r"^expected a gymnasium.vector.VectorEnv or a gymnasium.Env, got None"
    ):
        RayCollectors(lambda: None, Net().act, 1)
    taken = tmp_path / "taken"

    def different():
        try:
            taken.mkdir()
        except FileExistsError:
            return sync(Count(3), Count(3), Count(3))
        return sync(Count(3), Count(3))

    with pytest.raises(errors.SettingError, match=r"same number of environments in each worker, got 2 and 3$"):
        RayCollectors(different, Net().act, 2)
    made = RayCollectors(different, Net().act, 1)
    taken.rmdir()
    kill_one(made)
    with pytest.raises(errors.SettingError, match=r"same number of environments in each worker, got 2 and 3$"):
        made.reset()
    made.close()


def test_a_seed_that_is_none(collectors):
    with pytest.raises(errors.SettingError, match=r"^seed= must be a whole number >= 0 or None, got 'x'$"):
        collectors.reset("x")


def test_what_is_refused():
    with pytest.raises(errors.SettingError, match="takes a function that creates environments, got SyncVectorEnv"):
        RayCollectors(envs(), Net().act, 2)
    with pytest.raises(errors.SizeError, match="n_workers is 1 or more"):
        RayCollectors(envs, Net().act, 0)


def add_returns(batch: RolloutBatchProtocol) -> BatchWithReturns:
    return extend(batch, BatchWithReturns, returns=batch.rew)


def total(batch: BatchWithReturns, scale: float = 1.0) -> float:
    return float(batch.returns.sum()) * scale


def rollout(rows: int = 4) -> RolloutBatch:
    column = np.ones(rows)
    return RolloutBatch(
        obs=column, act=column, rew=column, terminated=column > 1, truncated=column > 1, obs_next=column, info=Batch()
    )


def test_a_call_has_the_types_of_its_function():
    with_returns = remote(add_returns).remote(rollout())
    assert type(get(with_returns)) is BatchWithReturns
    assert remote(total, num_cpus=1)(value_of(with_returns), scale=2.0) == 8


def test_what_a_function_is_handed_is_validated_where_it_arrives():
    with pytest.raises(errors.SchemaError, match=r"(?s)argument `batch` of .*total\(\).*batch.returns  missing"):
        remote(total)(rollout())


class Learner:
    """Lives in a process of its own."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale, self.seen = scale, 0

    def learn(self, batch: BatchWithReturns) -> float:
        self.seen += len(batch)
        return float(batch.returns.sum()) * self.scale

    def label(self, batch: RolloutBatchProtocol) -> BatchWithReturns:
        return extend(batch, BatchWithReturns, returns=batch.rew * self.scale)

    def fail(self) -> None:
        raise ValueError(f"after {self.seen} rows")


@pytest.fixture
def learner():
    made = Actor(lambda: Learner(scale=2.0), num_cpus=1)
    yield made
    made.close()


def test_methods_of_an_object_elsewhere(learner):
    labelled = learner.remote(Learner.label, rollout())
    assert learner.call(Learner.learn, value_of(labelled)) == 16
    with pytest.raises(ValueError, match="after 4 rows"):
        learner.call(Learner.fail)


def test_what_a_method_is_handed_is_validated_where_it_arrives(learner):
    with pytest.raises(errors.SchemaError, match=r"(?s)argument `batch` of .*learn\(\).*batch.returns  missing"):
        learner.call(Learner.learn, rollout())
    with pytest.raises(errors.SettingError, match="takes a function that creates an object, got Learner"):
        Actor(Learner())


def test_arrays_are_not_copied_and_cannot_be_written_to():
    batch = get(remote(add_returns).remote(rollout()))
    assert not batch.rew.flags.writeable
    with pytest.raises(errors.RowAssignmentError, match="field 'obs': the array is read-only"):
        batch[0] = batch[1]
    own = copy.deepcopy(batch)
    own[0] = own[1]


class Pixels(BatchRecord):
    cam: Array
    pose: Batch


class Scored(Pixels):
    score: Array


def score(batch: Pixels) -> Scored:
    return extend(batch, Scored, score=batch.cam.reshape(len(batch), -1).sum(-1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray Data, by itself
def test_datasets_map_batches_to_batches():
    pixels = Pixels(cam=np.ones((6, 3, 4), np.float32), pose=Batch(x=np.arange(6.0)))
    out = map_batches(from_batches(pixels, pixels), score, batch_size=4)
    (table,) = out.iter_batches(batch_format="pyarrow", batch_size=12)
    batch = from_arrow(table)
    assert conforms(batch, Scored)
    assert batch.score.tolist() == [12] * 12
    assert batch.pose.x.tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert batch.cam.shape == (12, 3, 4)
