"""Steps of real environments, single and in vectors, in all three ways to start again, and values of spaces."""

from __future__ import annotations

import pickle
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from typedbatch import Batch, BatchProtocol, BatchRecord, ObsBatchProtocol, RolloutBatchProtocol, SchemaError, validate
from typedbatch._core.lengths import leaves
from typedbatch._space_values import nested, unnested
from typedbatch.bridges.gymnasium import observations, transitions
from typedbatch.bridges.spaces import schema_from_spaces
from typedbatch.errors import FieldNameError, LeafError, StructureError
from typedbatch.schema import schema_of
from typedbatch.testing import example


class Counting(gym.Env[Any, Any]):
    """Counts its episodes and steps; ends after ``end`` of them, by turns terminated and truncated."""

    action_space = spaces.Discrete(3)
    observation_space: Any = spaces.Box(-9, 99, (2,), np.float64)

    def __init__(self, end: int = 3) -> None:
        self.end, self.episode, self.t = end, 0, 0

    def obs(self) -> Any:
        return np.array([self.episode, self.t], float)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self.obs(), {"began": self.episode}

    def step(self, action: Any) -> Any:
        self.t += 1
        done = self.t == self.end
        by_turns = self.episode % 2 == 1
        info = {"t": self.t} | ({"odd": 0.5} if self.t % 2 else {})
        return self.obs(), float(self.t), done and by_turns, done and not by_turns, info


class InDict(Counting):
    observation_space = spaces.Dict(pos=spaces.Box(-9, 99, (2,), np.float64), n=spaces.Discrete(99))

    def obs(self) -> Any:
        return {"pos": super().obs(), "n": np.int64(self.t)}


class InTuple(Counting):
    observation_space = spaces.Tuple((spaces.Box(-9, 99, (2,), np.float64), spaces.Dict(n=spaces.Discrete(99))))

    def obs(self) -> Any:
        return super().obs(), {"n": np.int64(self.t)}


class Number(Counting):
    observation_space = spaces.Discrete(1000)

    def obs(self) -> Any:
        return np.int64(100 * self.episode + self.t)


class Pos(BatchProtocol, Protocol):
    @property
    def pos(self) -> np.ndarray: ...


KINDS = [Counting, InDict, InTuple, Number]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
every_mode = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)


def clock(obs: Any) -> list[list[int]]:
    """Episode and step of each row, whatever the form."""
    if isinstance(obs, Batch):
        part = obs["pos"] if "pos" in obs else obs["0"]
        step = obs["n"] if "n" in obs else obs["1"].n
        assert part[:, 1].tolist() == step.tolist()
        return part.astype(int).tolist()
    return obs.astype(int).tolist() if obs.ndim == 2 else [[int(x) // 100, int(x) % 100] for x in obs]


def collected(kind: Any, mode: AutoresetMode, steps: int = 9) -> list[Any]:
    """Batches of real steps of two environments, without the rows that are none."""
    env = SyncVectorEnv([lambda: kind(3), lambda: kind(2)], autoreset_mode=mode)
    obs, _ = env.reset(seed=0)
    done, batches = np.zeros(2, bool), []
    for _ in range(steps):
        if mode is AutoresetMode.DISABLED and done.any():
            obs, _ = env.reset(options={"reset_mask": done})
        act = env.action_space.sample()
        step = env.step(act)
        batch: Any = transitions(obs, act, step)
        batches.append(batch[~done] if mode is AutoresetMode.NEXT_STEP else batch)
        obs, done = step[0], step[2] | step[3]
    env.close()
    return batches


@every_mode
@every_kind
def test_the_next_observation_is_of_the_same_episode(kind, mode):
    ended = 0
    for batch in collected(kind, mode):
        for (episode, t), after in zip(clock(batch.obs), clock(batch.obs_next), strict=True):
            assert after == [episode, t + 1]
        assert batch.rew.tolist() == [t for _, t in clock(batch.obs_next)]
        done = batch.terminated | batch.truncated
        if len(batch) == 2:
            assert done.tolist() == [t == end for (_, t), end in zip(clock(batch.obs_next), (3, 2), strict=True)]
        ended += done.sum()
    assert ended >= 5


@every_mode
def test_it_is_a_rollout(mode):
    for batch in collected(Counting, mode):
        validate(batch, RolloutBatchProtocol)
    for batch in collected(InDict, mode):
        validate(batch, RolloutBatchProtocol[np.ndarray, Pos, np.ndarray])


def test_the_first_observation_of_the_next_episode_is_not_lost():
    env = SyncVectorEnv([lambda: Counting(1), lambda: Counting(9)], autoreset_mode=AutoresetMode.SAME_STEP)
    obs, _ = env.reset()
    step = env.step(np.zeros(2, int))
    batch = transitions(obs, np.zeros(2, int), step)
    assert batch.obs_next.tolist() == [[1, 1], [1, 1]]
    assert step[0].tolist() == [[2, 0], [1, 1]]
    assert not np.shares_memory(batch.obs_next, step[0])


@every_mode
def test_infos_with_their_masks(mode):
    env = SyncVectorEnv([lambda: Counting(3), lambda: Counting(2)], autoreset_mode=mode)
    start = observations(env.reset())
    assert start.info.began.tolist() == [1, 1]
    assert start.info["_began"].tolist() == [True, True]
    first = transitions(start.obs, np.zeros(2, int), env.step(np.zeros(2, int)))
    assert first.info == Batch(t=[1, 1], _t=[True, True], odd=[0.5, 0.5], _odd=[True, True])
    second = transitions(start.obs, np.zeros(2, int), env.step(np.zeros(2, int)))
    assert not {"final_obs", "_final_obs"} & set(second.info.keys())
    if mode is AutoresetMode.SAME_STEP:
        assert second.info.final_info == Batch(t=[0, 2], _t=[False, True])
        assert second.info.began.tolist() == [0, 2]
    else:
        assert second.info == Batch(t=[2, 2], _t=[True, True])


@every_kind
def test_resets(kind):
    env = SyncVectorEnv([lambda: kind(3)] * 2)
    batch = observations(env.reset(seed=1))
    assert clock(batch.obs) == [[1, 0], [1, 0]]
    assert len(batch) == 2
    if kind is Counting:
        validate(batch, ObsBatchProtocol)


@every_kind
def test_arrays_are_those_that_were_given(kind):
    env = SyncVectorEnv([lambda: kind(9)] * 2)
    obs, _ = env.reset()
    act = np.zeros(2, int)
    step = env.step(act)
    batch = transitions(obs, act, step)
    assert batch.act is act
    assert [batch.rew, batch.terminated, batch.truncated] == [step[1], step[2], step[3]] or all(
        a is b for a, b in zip([batch.rew, batch.terminated, batch.truncated], step[1:4], strict=True)
    )
    given_arrays = dict(leaves(Batch(obs=nested(obs), obs_next=nested(step[0])).__dict__))
    for path, leaf in leaves(Batch(obs=batch.obs, obs_next=batch.obs_next).__dict__):
        assert leaf is given_arrays[path]


def test_tensors_stay_tensors():
    obs, flags = torch.zeros(2, 3), torch.zeros(2, dtype=torch.bool)
    batch = transitions(obs, flags, (obs, torch.ones(2), flags, flags, {}))
    assert batch.obs is obs
    assert batch.rew.tolist() == [1, 1]


@every_kind
def test_a_single_environment(kind):
    env = kind(3)
    rows, (obs, info) = [], env.reset()
    assert observations((obs, info)).info.began == 1
    for _ in range(3):
        step = env.step(0)
        rows.append(transitions(obs, 0, step))
        obs = step[0]
    batch = Batch.stack(rows)
    assert clock(batch.obs_next) == [[1, 1], [1, 2], [1, 3]]
    assert batch.terminated.tolist() == [False, False, True]
    assert batch.info.t.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.zeros(2), "b": {"c": np.ones(2)}},
        (np.zeros(2), np.ones(2)),
        {"a": (np.zeros(2), {"b": np.zeros(2)}), "c": np.zeros(2)},
        tuple(np.full(2, i) for i in range(12)),
    ],
)
def test_nested_and_back(value):
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict | tuple):
            pairs = (
                zip(one.values(), other.values(), strict=True)
                if isinstance(one, dict)
                else zip(one, other, strict=True)
            )
            return type(one) is type(other) and all(same(*pair) for pair in pairs)
        return one is other

    assert same(value, unnested(nested(value)))


def test_a_dict_with_the_names_of_a_tuple_is_taken_for_one():
    assert type(unnested(nested({"0": np.zeros(2), "1": np.ones(2)}))) is tuple
    assert unnested(nested({"1": np.zeros(2), "2": np.ones(2)})).keys() == {"1", "2"}
    assert unnested(Batch()) == {}


FLAGS = np.zeros(2, bool)


def stepped(info: Any, obs: Any = None) -> Any:
    obs = np.zeros((2, 2)) if obs is None else obs
    return transitions(obs, FLAGS, (obs, np.zeros(2), FLAGS, FLAGS, info))


@pytest.mark.parametrize("reset", [3, np.zeros(2), (1,), (1, 2, 3), (1, 2), (1, None)])
def test_what_is_no_reset(reset):
    with pytest.raises(LeafError, match=r"takes the \(obs, info\) that env\.reset\(\) returns, got "):
        observations(reset)


@pytest.mark.parametrize("step", [3, (1, 2, 3, 4), (1, 1.0, False, False, None), (1, 1.0, False, False, 3)])
def test_what_is_no_step(step):
    with pytest.raises(
        LeafError, match=r"takes the \(obs, reward, terminated, truncated, info\) that env\.step\(\) returns, got "
    ):
        transitions(0, 0, step)


def test_names_are_strings():
    with pytest.raises(FieldNameError, match="field names must be strings, got 1"):
        observations((np.zeros(2), {1: 2}))


@pytest.mark.parametrize(
    ("last", "ended"),
    [
        ([None, None], [True, False]), ([np.zeros(3), None], [True, False]), ([{"a": 1}, None], [True, False]),
        ([np.zeros(2), None], [True, False, True]), ([np.zeros(2), None], None),
    ],
    ids=["none", "other shape", "other kind", "mask too long", "no mask"],
)  # fmt: skip
def test_last_observations_that_do_not_fit(last, ended):
    finals = np.empty(2, object)
    finals[:] = last
    info = {"final_obs": finals} | ({} if ended is None else {"_final_obs": np.array(ended)})
    with pytest.raises(StructureError, match="final_obs"):
        stepped(info)


def test_observations_that_a_vector_does_not_stack():
    """Gymnasium gives a tuple of them, one for each environment, which is none of a Tuple space."""

    class Text(Counting):
        observation_space = spaces.Text(9)

        def obs(self) -> Any:
            return f"{self.t}"

    obs, info = SyncVectorEnv([Text, Text]).reset()
    assert obs == ("0", "0")
    assert observations((np.array(obs, object), info)).obs.tolist() == ["0", "0"]


def test_numbers_of_a_step_that_are_none():
    obs = np.zeros((2, 2))
    with pytest.raises(LeafError, match="field 'rew': list is not an array"):
        transitions(obs, FLAGS, (obs, [[1], [1, 2]], FLAGS, FLAGS, {}))
    with pytest.raises(StructureError, match="final_obs"):
        stepped({"final_obs": {"a": 1}, "_final_obs": np.array([True, False])})
    rew = torch.ones(2, requires_grad=True)
    assert transitions(obs, FLAGS, (obs, rew, FLAGS, FLAGS, {})).rew is rew


def steps_of(space: spaces.Space[Any], rows: int = 5) -> Any:
    space.seed(0)
    return Batch.stack([Batch(it=nested(space.sample())) for _ in range(rows)])["it"]


def rollout(obs: Any, act: Any) -> Batch:
    flags = np.zeros(5, bool)
    return Batch(obs=obs, obs_next=obs, act=act, rew=np.zeros(5), terminated=flags, truncated=flags, info=Batch())


def expects(schema: Any, path: str) -> str:
    found = schema_of(schema)
    *outer, last = path.split(".")
    for name in outer:
        found = found[name].nested[0]
    return found[last].expects()


SPACES = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "half": spaces.Box(np.array([0, -np.inf], np.float32), np.array([np.inf, 3], np.float32)),
    "number": spaces.Box(-1, 1, (), np.float32),
    "discrete": spaces.Discrete(4, start=-2),
    "multi discrete": spaces.MultiDiscrete([2, 5]),
    "multi binary": spaces.MultiBinary(3),
    "dict": spaces.Dict(cam=spaces.Box(0, 255, (2, 2), np.uint8), inner=spaces.Dict(pos=spaces.Discrete(3))),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Dict(a=spaces.MultiBinary(2)))),
}


@pytest.mark.parametrize("obs", SPACES)
@pytest.mark.parametrize("act", ["discrete", "box", "tuple"])
def test_samples_of_the_spaces_fit(obs, act):
    schema = schema_from_spaces(SPACES[obs], SPACES[act])
    found = validate(rollout(steps_of(SPACES[obs]), steps_of(SPACES[act])), schema, level="values")
    assert type(found) is schema
    validate(example(schema), schema, level="values")


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_real_environments(name):
    single = gym.make(name)
    schema = schema_from_spaces(single.observation_space, single.action_space, "Steps")
    env = SyncVectorEnv([lambda: gym.make(name)] * 3)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        act = env.action_space.sample()
        step = env.step(act)
        batch = transitions(obs, act, step)
        validate(batch, schema, level="values")
        validate(validate(batch, schema), RolloutBatchProtocol)
        obs = step[0]
    env.close()


def test_dtypes_and_shapes_are_structure():
    schema = schema_from_spaces(SPACES["image"], SPACES["multi discrete"])
    assert expects(schema, "obs") == "a numpy array of uint8, shape (N, 4, 4, 3)"
    assert expects(schema, "act") == "a numpy array of int64, shape (N, 2)"
    act = steps_of(SPACES["multi discrete"])
    for obs in (np.zeros((5, 4, 4), np.uint8), np.zeros((5, 4, 4, 3)), np.zeros((5, 3, 4, 4), np.uint8)):
        with pytest.raises(SchemaError, match="obs"):
            validate(rollout(obs, act), schema)


@pytest.mark.parametrize(
    ("space", "values", "text"),
    [
        ("box", np.full((5, 3), 1.5, np.float32), r"obs .*<= 1"),
        ("half", np.full((5, 2), -1, np.float32), r"obs .*>= limits from -inf to 0"),
        ("discrete", np.full(5, 2), r"obs .*<= 1"),
        ("discrete", np.full(5, -3), r"obs .*>= -2"),
        ("multi discrete", np.full((5, 2), 2), r"obs .*<= limits from 1 to 4"),
        ("multi binary", np.full((5, 3), 2, np.int8), r"obs .*<= 1"),
    ],
)
def test_bounds_are_rules_on_values(space, values, text):
    schema = schema_from_spaces(SPACES[space], SPACES["discrete"])
    batch = rollout(values, steps_of(SPACES["discrete"]))
    validate(batch, schema)
    with pytest.raises(SchemaError, match=text):
        validate(batch, schema, level="values")


def test_nested_spaces_are_nested_records():
    schema = schema_from_spaces(SPACES["dict"], SPACES["tuple"], "Steps")
    assert expects(schema, "obs.inner.pos") == "a numpy array of int64, shape (N,)"
    assert expects(schema, "act.1.a") == "a numpy array of int8, shape (N, 2)"
    assert issubclass(schema, BatchRecord)
    assert schema.__name__ == "Steps"


def test_spaces_without_dtype_are_objects():
    schema = schema_from_spaces(spaces.Text(5), spaces.Discrete(2))
    batch = rollout(np.array(["a"] * 5, object), np.zeros(5, np.int64))
    validate(batch, schema)
    with pytest.raises(SchemaError, match="obs"):
        validate(rollout(np.zeros(5), np.zeros(5, np.int64)), schema)


def test_what_is_refused():
    with pytest.raises(LeafError, match=r"schema_from_spaces\(\) takes spaces of gymnasium, got i"):
        schema_from_spaces(np.int64(3), spaces.Discrete(2))
    with pytest.raises(FieldNameError, match="'a b' cannot be the name of a record's field"):
        schema_from_spaces(spaces.Dict({"a b": spaces.Discrete(2)}), spaces.Discrete(2))


@pytest.mark.parametrize("key", ["keys", "a b", 1, ("a", "b")])
def test_keys_that_are_no_fields(key):
    with pytest.raises(FieldNameError, match="cannot be the name of a record's field"):
        schema_from_spaces(spaces.Dict({key: spaces.Discrete(2)}), spaces.Discrete(2))


def test_limits_are_said_in_full():
    schema = schema_from_spaces(spaces.Discrete(1234567), spaces.Discrete(2))
    with pytest.raises(SchemaError, match="<= 1234566"):
        validate(rollout(np.full(5, 1234567), np.zeros(5, np.int64)), schema, level="values")


def test_nan_is_in_no_box():
    schema = schema_from_spaces(SPACES["unbounded"], spaces.Discrete(2))
    with pytest.raises(SchemaError, match="no NaN"):
        validate(rollout(np.full((5, 2), np.nan), np.zeros(5, np.int64)), schema, level="values")


Kept = schema_from_spaces(SPACES["box"], SPACES["discrete"], "Kept")


def test_a_record_that_is_kept_is_pickled():
    assert pickle.loads(pickle.dumps(Kept)) is Kept
