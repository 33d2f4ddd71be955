"""Episodes of real Minari datasets as rollouts, and rollouts as episodes to make datasets of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari import EpisodeData, MinariDataset
from minari.data_collector import EpisodeBuffer

from typedbatch import Batch, RolloutBatch
from typedbatch._core.lengths import leaves
from typedbatch.bridges.minari import from_minari, from_minari_dataset, to_minari, write_minari
from typedbatch.buffers import ReplayBuffer
from typedbatch.episodes import episode_lengths
from typedbatch.errors import LeafError, MissingFieldError, NoLengthError, StructureError
from typedbatch.training import Collector, random_policy

# Minari says so wherever no second environment for evaluation is given
pytestmark = [
    pytest.mark.filterwarnings("ignore:`eval_env` is set to None:UserWarning"),
    pytest.mark.filterwarnings("ignore:env_spec is None:UserWarning"),
]
SAID = dict.fromkeys(("author", "author_email", "algorithm_name", "description"), "test")
SAID["code_permalink"] = "https://example.org"


class InDict(gym.Env[Any, Any]):
    """Three steps, with observations in a dict and actions in a tuple."""

    observation_space = spaces.Dict(pos=spaces.Box(-9, 99, (2,), np.float32), n=spaces.Discrete(99))
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))

    def obs(self) -> Any:
        return {"pos": np.full(2, self.t, np.float32), "n": np.int64(self.t)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.obs(), {"lives": 3.0}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.obs(), float(self.t), False, self.t == 3, {"lives": 3.0 - self.t}


class InTuple(InDict):
    observation_space = spaces.Tuple((spaces.Discrete(99), spaces.Box(-9, 99, (2,), np.float32)))

    def obs(self) -> Any:
        return np.int64(self.t), np.full(2, self.t, np.float32)


ENVIRONMENTS: dict[str, Callable[[], gym.Env[Any, Any]]] = {
    "cartpole": lambda: gym.make("CartPole-v1").unwrapped,
    "dict": InDict,
    "tuple": InTuple,
}
every_environment = pytest.mark.parametrize("name", ENVIRONMENTS)
every_format = pytest.mark.parametrize("data_format", ["hdf5", "arrow"])


def in_columns(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {name: in_columns([one[name] for one in values]) for name in values[0]}
    if isinstance(values[0], tuple):
        return tuple(in_columns([one[i] for one in values]) for i in range(len(values[0])))
    return values


def played(env: gym.Env[Any, Any], seed: int, with_infos: bool) -> EpisodeBuffer:
    """An episode as Minari's own collector keeps it: one observation and one info more than there are steps."""
    obs, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    rows: list[Any] = []
    all_obs, infos, done = [obs], [info], False
    while not done:
        act = env.action_space.sample()
        obs, rew, terminated, truncated, info = env.step(act)
        rows.append((act, rew, terminated, truncated))
        all_obs.append(obs), infos.append(info)
        done = terminated or truncated
    act, rew, terminated, truncated = (list(column) for column in zip(*rows, strict=True))
    return EpisodeBuffer(
        seed=seed, observations=in_columns(all_obs), actions=in_columns(act), rewards=rew, terminations=terminated,
        truncations=truncated, infos=in_columns(infos) if with_infos and infos[0] else None,
    )  # fmt: skip


def dataset_of(buffers: list[EpisodeBuffer], name: str, data_format: str, tag: str = "mine") -> MinariDataset:
    env = ENVIRONMENTS[name]()
    spaces_ = {"action_space": env.action_space, "observation_space": env.observation_space}
    return minari.create_dataset_from_buffers(f"{tag}/{name}-v0", buffers, **spaces_, **SAID, data_format=data_format)


@pytest.fixture
def recorded(tmp_path, monkeypatch) -> Callable[..., MinariDataset]:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def record(name: str, data_format: str = "hdf5", with_infos: bool = True, episodes: int = 2) -> MinariDataset:
        env = ENVIRONMENTS[name]()
        return dataset_of([played(env, seed, with_infos) for seed in range(episodes)], name, data_format)

    return record


def episode(steps: int = 3, **fields: Any) -> EpisodeData:
    flags = np.zeros(steps, bool)
    made = {
        "id": 0, "observations": np.zeros((steps + 1, 2)), "actions": np.zeros(steps), "rewards": np.zeros(steps),
        "terminations": flags, "truncations": flags, "infos": {},
    }  # fmt: skip
    return EpisodeData(**{**made, **fields})


def rollout(steps: int = 4, **fields: Any) -> Any:
    n = np.arange(steps + 1.0)
    done = np.arange(steps) == steps - 1
    made = {"obs": n[:-1], "obs_next": n[1:], "act": n[1:], "rew": n[1:], "terminated": done, "truncated": ~done & done}
    return RolloutBatch(**{**made, "info": {}, **fields})


@every_format
@every_environment
def test_episodes_are_rollouts(recorded, name, data_format):
    dataset = recorded(name, data_format)
    for one in dataset:
        batch = from_minari(one)
        assert type(batch) is RolloutBatch
        assert len(batch) == len(one)
        assert batch.rew.tolist() == one.rewards.tolist()
        assert batch.terminated.tolist() == one.terminations.tolist()
        assert batch.truncated.tolist() == one.truncations.tolist()
        assert Batch(o=batch[1:].obs) == Batch(o=batch[:-1].obs_next)


def test_dicts_and_tuples_are_nested(recorded):
    batch = from_minari(recorded("dict")[0])
    assert batch.obs.n.tolist() == [0, 1, 2]
    assert batch.obs_next.pos[:, 0].tolist() == [1, 2, 3]
    assert batch.act["1"].shape == (3, 2)
    assert batch.info.lives.tolist() == [2, 1, 0]  # those of the steps, not that of the reset
    assert from_minari(recorded("tuple")[0]).obs["0"].tolist() == [0, 1, 2]


@every_environment
def test_nothing_is_copied(recorded, name):
    one = recorded(name)[0]
    batch = from_minari(one)
    parts = one.observations
    columns = parts.values() if isinstance(parts, dict) else parts if isinstance(parts, tuple) else [parts]
    for part in (batch.obs, batch.obs_next):
        mine = [leaf for _, leaf in leaves(Batch(o=part).__dict__)]
        assert all(any(np.shares_memory(leaf, column) for column in columns) for leaf in mine)
    assert batch.rew is one.rewards
    assert batch.terminated is one.terminations


@every_format
@pytest.mark.parametrize("with_infos", [True, False])
@every_environment
def test_there_and_back(recorded, name, with_infos, data_format):
    dataset = recorded(name, data_format, with_infos)
    buffers = [to_minari(batch, seed=i) for i, batch in enumerate(from_minari_dataset(dataset))]
    again = dataset_of(buffers, name, data_format, tag="again")
    assert again.total_episodes == 2
    for one, other in zip(dataset, again, strict=True):
        assert from_minari(one) == from_minari(other)


def test_an_episode_has_what_the_steps_have():
    made = to_minari(rollout(info={"a": np.arange(4)}), seed=7)
    assert made.seed == 7
    assert made.observations.tolist() == [0, 1, 2, 3, 4]
    assert made.rewards.tolist() == made.actions.tolist() == [1, 2, 3, 4]
    assert made.terminations.tolist() == [False, False, False, True]
    assert to_minari(rollout()[:1]).observations.tolist() == [0, 1]
    assert not np.shares_memory(made.observations, rollout().obs)


def test_tensors_become_arrays():
    made = to_minari(rollout().to_torch())
    assert type(made.observations) is type(made.rewards) is np.ndarray


def test_numbers_that_are_none_are_no_reason_to_refuse():
    n = np.array([0, np.nan, 2, 3])
    assert len(to_minari(rollout(3, obs=n[:-1], obs_next=n[1:])).observations) == 4


@every_format
def test_a_rollout_is_written_in_episodes(tmp_path, monkeypatch, data_format):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    envs = gym.make_vec("CartPole-v1", 4)
    collector = Collector(envs, random_policy(envs, seed=1))
    collector.reset(seed=1)
    batch = collector.rollout(400)
    written = write_minari(batch, "mine/cartpole-v0", "CartPole-v1", **SAID, data_format=data_format)
    assert written.total_steps == len(batch)
    assert written.total_episodes == (batch.terminated | batch.truncated).sum() == len(episode_lengths(batch))
    loaded = minari.load_dataset("mine/cartpole-v0")
    assert Batch.cat(list(from_minari_dataset(loaded))) == batch
    assert loaded.recover_environment(eval_env=True).spec.id == "CartPole-v1"


def test_rows_of_a_buffer_are_written_and_the_last_episode_gets_an_end(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffer = ReplayBuffer(20)
    for row in [*rollout(4), *rollout(3)[:2]]:
        buffer.add(row)
    rows = buffer[:]
    spaces_ = {name: spaces.Box(-9, 9, (), np.float64) for name in ("observation_space", "action_space")}
    written = write_minari(rows, "mine/short-v0", **spaces_, **SAID)
    ends = [(len(one), bool(one.terminations[-1]), bool(one.truncations[-1])) for one in written]
    assert ends == [(4, True, False), (2, False, True)]
    assert not rows.truncated.any()


def test_rows_of_two_episodes_without_an_end_between_them_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    two = Batch.cat([rollout(), rollout(3)[:2], rollout(3)])
    with pytest.raises(StructureError, match=r"'obs_next': differs .*; this is episode 1, of 5 steps"):
        write_minari(two, "mine/two-v0", "CartPole-v1", **SAID)
    with pytest.raises(StructureError, match="a dataset must have at least one step"):
        write_minari(rollout()[:0], "mine/two-v0", "CartPole-v1", **SAID)
    with pytest.raises(LeafError, match=r"write_minari\(\) takes a Batch, got "):
        write_minari(None, "mine/two-v0", "CartPole-v1", **SAID)
    del two["act"]
    with pytest.raises(MissingFieldError, match="no field 'act'"):
        write_minari(two, "mine/two-v0", "CartPole-v1", **SAID)
    assert not list(tmp_path.iterdir())


def test_steps_of_two_episodes():
    with pytest.raises(
        StructureError, match="field 'obs_next': differs from the obs of the next step, so these are not"
    ):
        to_minari(Batch.cat([rollout(), rollout()]))


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_an_end_in_the_middle(flag):
    with pytest.raises(StructureError, match=flag):
        to_minari(rollout(**{flag: np.array([False, True, False, True])}))


def test_no_steps_and_single_ones():
    with pytest.raises(StructureError, match="an episode must have at least one step"):
        to_minari(rollout()[:0])
    with pytest.raises(NoLengthError, match="a scalar"):
        to_minari(rollout()[0])
    with pytest.raises(StructureError, match=r"different lengths: .* others 2"):
        to_minari(rollout(rew=np.zeros(2)))


@pytest.mark.parametrize("name", ["obs", "obs_next", "act", "rew", "terminated", "truncated"])
def test_a_field_that_is_missing_is_named(name):
    batch = Batch(rollout())
    del batch[name]
    with pytest.raises((LeafError, StructureError, AttributeError), match=f"no field '{name}'"):
        to_minari(batch)


@pytest.mark.parametrize("value", [{"obs": np.zeros(2)}, None, 3])
def test_what_is_no_batch(value):
    with pytest.raises(LeafError, match=r"to_minari\(\) takes a Batch, got "):
        to_minari(value)


def test_infos_that_minari_has_no_place_for_are_not_lost():
    infos = np.empty(4, object)
    infos[:] = ["a", "b", "c", "d"]
    with pytest.raises((LeafError, StructureError), match="info"):
        to_minari(rollout(info=infos))


@pytest.mark.parametrize("value", [3, {}, None, Batch()])
def test_what_is_no_episode(value):
    with pytest.raises(LeafError, match=r"from_minari\(\) takes an episode of a Minari dataset, got "):
        from_minari(value)


def test_episodes_that_do_not_fit_together():
    with pytest.raises(StructureError, match="field 'obs': an episode of 3 steps has 4 observations, got 3"):
        from_minari(episode(observations=np.zeros((3, 2))))
    assert from_minari(episode(infos=None)).info == Batch()
    with pytest.raises(StructureError, match="act"):
        from_minari(episode(actions=np.zeros(7)))
    with pytest.raises(StructureError, match="info"):
        from_minari(episode(infos={"a": np.zeros(9)}))


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"x": None}, "field 'info.x': Minari stores only plain arrays, got None"),
        ({"x": np.ma.array(range(4))}, "info.x"),
    ],
)
def test_infos_that_are_no_arrays(info, text):
    with pytest.raises(LeafError, match=text):
        to_minari(rollout(info=info))
