"""Records made of gymnasium's spaces: what real environments give fits, what is out of bounds does not."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from typedbatch import Batch, BatchRecord, RolloutBatchProtocol, SchemaError, validate
from typedbatch._space_values import nested
from typedbatch.bridges.gymnasium import transitions
from typedbatch.bridges.spaces import schema_from_spaces
from typedbatch.errors import FieldNameError, LeafError
from typedbatch.schema import schema_of
from typedbatch.testing import example


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
