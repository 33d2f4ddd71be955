"""A collector of a single environment, which is that of a vector of one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from typing_extensions import override

from tests.training.environments import Reusing
from typedbatch import ActBatch, Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.errors import EnvironmentFailedError, SettingError
from typedbatch.training import Collector, evaluate


class Walk(gym.Env[Any, int]):
    """A walk of five steps, with infos, and an observation of any space."""

    def __init__(self, observation_space: gym.Space[Any], *, wrong: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, gym.spaces.Discrete(2)
        self.steps, self.wrong = 0, wrong

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {"steps": 0}

    @override
    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        obs = self.observation_space.sample() if self.wrong is None else self.wrong
        return obs, float(action), self.steps == 5, self.steps == 7, {"steps": self.steps}


BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
SPACES = {
    "array": BOX,
    "number": gym.spaces.Discrete(5),
    "scalar": gym.spaces.Box(-9, 9, ()),
    "image": gym.spaces.Box(0, 255, (2, 2, 3), np.uint8),
    "dict": gym.spaces.Dict(cam=BOX, pos=gym.spaces.Tuple([BOX, gym.spaces.Discrete(3)])),
}


def alternating(batch: Any) -> ActBatch:
    return ActBatch(act=(batch.info["steps"].astype(np.int64) % 2))


def rollouts(envs: Any) -> list[Batch]:
    collector = Collector(envs, alternating, infos=["steps"])
    collector.reset(3)
    return [collector.rollout(count) for count in (3, 1, 9)]


@pytest.mark.parametrize("space", SPACES)
def test_rollouts_are_those_of_a_vector_of_one(space: str) -> None:
    of_vector = rollouts(SyncVectorEnv([lambda: Walk(SPACES[space])], autoreset_mode=AutoresetMode.SAME_STEP))
    assert rollouts(Walk(SPACES[space])) == of_vector
    assert rollouts(lambda: Walk(SPACES[space])) == of_vector


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_environments_of_gymnasium(name: str) -> None:
    def collected(envs: Any) -> Batch:
        space = envs.action_space if isinstance(envs, gym.Env) else envs.single_action_space
        zeros = np.zeros((1, *space.shape), space.dtype)
        collector, buffer = Collector(envs, lambda _: ActBatch(act=zeros.copy())), ReplayBuffer(300)
        collector.reset(5)
        for count in (1, 4, 60, 200):
            collector.collect(buffer, n_step=count)
        return buffer[:]

    vector = gym.make_vec(name, 1, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"})
    assert collected(gym.make(name)) == collected(vector)


def test_flags_in_arrays_of_one_value() -> None:
    class Arrays(Walk):
        @override
        def step(self, action: int) -> Any:
            obs, rew, terminated, truncated, info = super().step(action)
            return obs, np.array([rew]), np.array([terminated]), np.array(truncated), info

    assert rollouts(Arrays(BOX)) == rollouts(Walk(BOX))


def test_a_buffer_that_stores_rows_in_a_way_of_its_own() -> None:
    class Doubled(ReplayBuffer[Any, Any]):
        @override
        def add(self, batch: Any, buffer_ids: Any = None) -> Any:
            batch.rew = 2 * batch.rew
            return super().add(batch, buffer_ids)

    buffer = Doubled(10)
    Collector(Walk(BOX), lambda _: ActBatch(act=np.ones(1, np.int64))).collect(buffer, n_step=3)
    assert buffer[:].rew.tolist() == [2, 2, 2]


def test_evaluation() -> None:
    stats = evaluate(Walk(BOX), lambda batch: ActBatch(act=np.ones(1, np.int64)), 3, seed=1)
    assert stats.returns.tolist() == [5, 5, 5]


def test_another_collector_of_the_same_environment_begins_a_new_episode() -> None:
    env = Walk(BOX)
    one, other = (Collector(env, lambda _: ActBatch(act=np.ones(1, np.int64)), infos=["steps"]) for _ in range(2))
    one.rollout(2)
    other.rollout(2)
    assert one.rollout(1).info["steps"].tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (np.zeros(2, np.float32), r"observations of shape \(3,\) are declared, got one of \(2,\)"),
        (np.zeros((1, 3), np.float32), r"observations of shape \(3,\) are declared, got one of \(1, 3\)"),
        (np.zeros(3, complex), "Cannot cast"),
    ],
    ids=["shape", "rows", "dtype"],
)
def test_observations_that_do_not_fit_their_space(wrong: Any, text: str) -> None:
    collector = Collector(Walk(BOX, wrong=wrong), lambda _: ActBatch(act=np.ones(1, np.int64)))
    with pytest.raises(EnvironmentFailedError, match=f"an environment raised .*{text}"):
        collector.rollout(1)


def test_what_is_no_environment_is_refused() -> None:
    envs: Any = [Walk(BOX)]
    with pytest.raises(SettingError, match=r"expected a gymnasium.vector.VectorEnv or a gymnasium.Env, got list"):
        Collector(envs, alternating)


@pytest.mark.parametrize("way", ["rollout", "rows", "collect", "collect by step"])
@pytest.mark.parametrize("kind", Reusing.KINDS)
def test_an_environment_may_write_into_the_arrays_that_it_returned(kind: str, way: str) -> None:
    env = Reusing(3, kind)
    collector, buffer = Collector(env, act_zero, infos=["time", "level"]), ReplayBuffer(20)
    if way == "rollout":
        rows = collector.rollout(10)
    elif way == "rows":
        rows = collector.rows(10)[0]
    else:
        for _ in range(10 if way == "collect by step" else 1):
            collector.collect(buffer, 1 if way == "collect by step" else 10)
        rows = buffer[:]
    leaves = {"array": (), "dict": ("a",), "tuple": ("1",), "nested": ("a", "b", "0")}[kind]
    obs, obs_next = rows.obs, rows.obs_next
    for name in leaves:
        obs, obs_next = obs[name], obs_next[name]
    assert [*zip(obs[:, 0].tolist(), obs_next[:, 0].tolist(), strict=True)] == env.log
    assert (rows.info.time[:, 0] == obs_next[:, 0] % 100).all()
    assert (rows.info.level == np.where(obs[:, 0] % 100 == 0, obs[:, 0] // 100, 0)).all()


def act_zero(batch: Any) -> ActBatch:
    """Return the action 0 for each row, whatever the observations are."""
    return ActBatch(act=np.zeros(1, np.int64))
