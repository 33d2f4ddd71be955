"""Failures: environments that raise, hang or are interrupted, and mismatches that are found before the first step."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from tests.training.environments import MODES, Count, Nested, in_processes, sync, zeros
from typedbatch import ActBatch, ActStateBatch, Batch, checking, errors
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector
from typedbatch.training.env_vector import terminate

GONE = pytest.mark.filterwarnings("ignore:.*(Received the following error|Traceback|Raising the last)")
"""Filter of the warnings of gymnasium when a process of an environment ends."""


def test_an_environment_that_raises_is_named_and_nothing_collected_is_lost():
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(sync(Count(3), Count(5, fails_at=8)), zeros)
    with pytest.raises(
        errors.EnvironmentFailedError,
        match=r"^environment 1 raised ValueError: the simulator is gone; the next call begins new episodes$",
    ) as raised:
        collector.collect(buffer, 40)
    assert isinstance(raised.value.__cause__, ValueError)
    assert len(buffer) == collector.steps == collector.last_stats.steps == 14
    assert (buffer[:].obs_next == buffer[:].obs + 1).all()
    collector.collect(buffer, 10)
    assert len(buffer) == 24
    assert (buffer[:].obs[:, 0] % 100 == 0).sum() == 8, "new episodes have begun"


@GONE
def test_an_environment_in_a_process_that_raises_is_made_anew_by_a_function():
    made = []

    def make():
        made.append(in_processes(Count(3), Count(5, fails_at=8 if not made else 0)))
        return made[-1]

    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(make, zeros)
    with pytest.raises(errors.EnvironmentFailedError, match=r"^environment 1 raised ValueError: the simulator is gone"):
        collector.collect(buffer, 40)
    assert len(buffer) == 14
    collector.collect(buffer, 10)
    assert (len(buffer), len(made)) == (24, 2)
    collector.envs.close()


class HangsInReset(Count):
    """Hangs when it is reset for the second time."""

    def reset(self, **given):
        if self.episode == 1:
            time.sleep(1000)
        return super().reset(**given)


LATE = r"^environment 1 has not answered within 2 s"
FAILING = {
    "a step": (lambda: Count(5, fails_at=3, with_="hang"), LATE),
    "a reset": (lambda: HangsInReset(2), LATE),
    "an error that cannot be pickled": (
        lambda: Count(5, fails_at=3, with_="unpicklable"),
        r"^environment 1 raised RuntimeError: an error that cannot be pickled, so that only its process could print it",
    ),
    "a process that was killed": (lambda: Count(5, fails_at=3, with_="killed"), r"raised (EOF|ConnectionReset)Error"),
}


@GONE
@pytest.mark.parametrize(
    ("what", "mode", "wrapped"),
    [
        *((what, mode, mode is not AutoresetMode.SAME_STEP) for what in FAILING for mode in MODES[:2]),
        ("a reset", AutoresetMode.DISABLED, False),
    ],
)
@pytest.mark.slow
def test_nothing_is_waited_for_longer_than_the_timeout(what, mode, wrapped):
    failing, text = FAILING[what]
    envs = in_processes(Count(9), failing(), mode=mode)
    collector = Collector(RecordEpisodeStatistics(envs) if wrapped else envs, zeros, timeout=2)
    with pytest.raises(errors.EnvironmentFailedError, match=f"{text}.*pass the Collector a function that creates them"):
        collector.collect(VectorReplayBuffer(100, 2), 40)
    for again in (lambda: collector.collect(VectorReplayBuffer(100, 2), 4), collector.reset):
        with pytest.raises(errors.EnvironmentFailedError, match="have failed before; these environments cannot go on"):
            again()
    terminate(envs)


class Doubled(gym.vector.VectorObservationWrapper):
    """Observations that are twice as large."""

    def observations(self, observations):
        return observations * 2


@GONE
@pytest.mark.parametrize("what", FAILING)
def test_what_has_failed_is_made_anew_by_a_function(what):
    made = []

    def make():
        other = FAILING[what][0]() if not made else Count(9)
        made.append(in_processes(Count(9), other, mode=AutoresetMode.NEXT_STEP))
        return Doubled(made[-1])

    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(make, zeros, timeout=2)
    with pytest.raises(errors.EnvironmentFailedError, match=f"{FAILING[what][1]}.*; the next call begins new episodes"):
        collector.collect(buffer, 40)
    there = len(buffer)
    collector.collect(buffer, 10)
    assert (len(buffer), len(made)) == (there + 10, 2)
    assert (buffer[:].obs_next == buffer[:].obs + 2).all(), "what the wrapper makes of them"
    assert not any(process.is_alive() for process in made[0].processes)
    collector.envs.close()


@GONE
def test_an_error_that_cannot_be_pickled_is_one_without_a_timeout_too():
    envs = in_processes(Count(9), Count(5, fails_at=3, with_="unpicklable"))
    with pytest.raises(errors.EnvironmentFailedError, match="an error that cannot be pickled"):
        Collector(envs, zeros).rollout(40)
    terminate(envs)


@GONE
def test_processes_that_were_interrupted_in_a_step_are_made_anew():
    made = []

    def make():
        made.append(in_processes(Count(9), Count(9, fails_at=0 if made else 4, with_="interrupt")))
        return made[-1]

    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(make, zeros)
    with pytest.raises(KeyboardInterrupt):
        collector.collect(buffer, 40)
    collector.collect(buffer, 4)
    assert buffer[:].obs[:, 0].tolist() == [100, 101, 102, 100, 101] * 2
    assert np.flatnonzero(buffer.truncated[:50]).tolist() == [2]
    collector.envs.close()
    envs = in_processes(Count(9), Count(9, fails_at=4, with_="interrupt"))
    alone = Collector(envs, zeros)
    with pytest.raises(KeyboardInterrupt):
        alone.rollout(40)
    with pytest.raises(errors.EnvironmentFailedError, match="have failed before; these environments cannot go on"):
        alone.rollout(4)
    terminate(envs)


def test_a_vector_is_left_as_it_was_by_a_timeout():
    envs = in_processes(Count(9))
    Collector(envs, zeros, timeout=5).rollout(3)
    assert not {"step_wait", "reset_wait"} & vars(envs).keys()
    assert len(Collector(envs, zeros).rollout(3)) == 3
    envs.close()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon"])
def test_a_timeout_that_is_none(timeout):
    with pytest.raises(errors.SettingError, match=r"^timeout= must be a number of seconds above 0 or None, got"):
        Collector(sync(Count(3)), zeros, timeout=timeout)


def test_an_interruption_keeps_what_was_collected():
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(sync(Count(3), Count(5, fails_at=8, with_="interrupt")), zeros)
    with pytest.raises(KeyboardInterrupt):
        collector.collect(buffer, 40)
    assert len(buffer) == collector.steps == 14
    collector.collect(buffer, 10)
    assert (buffer[:].obs_next == buffer[:].obs + 1).all()


def test_a_reward_that_is_not_a_number_is_named_where_values_are_looked_at():
    class Endless(Count):
        def step(self, action):
            obs, rew, *rest = super().step(action)
            return obs, np.nan if self.steps == 5 else rew, *rest

    Collector(sync(Count(3), Endless(3)), zeros).rollout(20)
    with (
        checking("values"),
        pytest.raises(errors.StructureError, match="field 'rew': environment 1 gave nan for step 2 of its episode"),
    ):
        Collector(sync(Count(3), Endless(3)), zeros).rollout(20)


class Gives(gym.vector.VectorWrapper):
    """Gives something else in place of what the environments give."""

    def __init__(self, **given):
        super().__init__(sync(Count(9), Count(9)))
        self.given, self.steps = given, 0

    def step(self, actions):
        self.steps += 1
        names = ("obs", "rew", "terminated", "truncated", "info")
        out = dict(zip(names, self.env.step(actions), strict=True))
        return tuple((out | (self.given if self.steps == 3 else {})).values())


NO_OUTCOMES = {
    "rewards in a column": ({"rew": np.ones((2, 1))},
        r"'rew': one reward for each of 2 environments is expected, of shape \[2\], got f64\[2,1\]; rew\[:, 0\]"),
    "a single reward": ({"rew": np.ones(1)}, r"'rew': one reward for each .*, got f64\[1\]$"),
    "no rewards": ({"rew": None}, r"'rew': rewards must be a numpy array of real numbers, got None"),
    "complex rewards": ({"rew": np.ones(2, complex)}, r"'rew': rewards must be a numpy array .*, got c128\[2\]"),
    "text as rewards": ({"rew": np.array(["a", "b"])}, r"'rew': rewards must be a numpy array .*, got <U1\[2\]"),
    "objects as rewards": ({"rew": np.ones(2, object)}, r"'rew': rewards must be a numpy array .*, got obj\[2\]"),
    "tensors as rewards": ({"rew": torch.ones(2)}, r"'rew': .*, got torch f32\[2\]; .numpy\(\) converts a tensor"),
    "masked rewards": ({"rew": np.ma.array([1.0, 2], mask=[1, 0])}, "'rew': some values are masked"),
    "a list as rewards": ({"rew": [1.0, 2.0]}, "'rew': rewards must be a numpy array of real numbers, got list"),
    "numbers as flags": ({"terminated": np.zeros(2, int)},
        r"'terminated': flags must be a numpy array of bools, as .astype\(bool\) returns, got i64\[2\]"),
    "numbers as other flags": ({"truncated": np.zeros(2)}, r"'truncated': flags must be .*, got f64\[2\]"),
    "flags in a column": ({"truncated": np.zeros((2, 1), bool)}, r"'truncated': one flag for each .*bool\[2,1\]"),
    "too many rows": ({"obs": np.zeros((3, 1), np.float32)},
        r"'obs': observations of environments must have a row for each of 2 environments, got f32\[3,1\]"),
    "no observations": ({"obs": None}, "'obs': .* have a row for each of 2 environments, got None"),
    "a single observation": ({"obs": np.float32(1)}, "'obs': .* have a row for each of 2 environments, got f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_OUTCOMES)
@pytest.mark.parametrize("n_step", [2, 40])
def test_what_is_no_step_of_each_environment_is_named_and_nothing_of_it_is_kept(name, n_step):
    given, text = NO_OUTCOMES[name]
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(Gives(**given), zeros)
    if n_step == 2:
        collector.collect(buffer, 2)
        collector.collect(buffer, 2)
    with pytest.raises((errors.LeafError, errors.StructureError), match=f"^field ({text})"):
        collector.collect(buffer, n_step)
    assert len(buffer) == 4
    assert np.isfinite(collector.last_stats.returns).all()
    collector.collect(buffer, 4)
    assert (buffer[:].obs[:, 0] % 100 == 0).sum() == 4, "new episodes have begun"


def test_rewards_of_other_numbers_are_kept_as_they_are():
    for rew in (np.ones(2, np.float32), np.ones(2, np.int64)):
        assert Collector(Gives(rew=rew), zeros).rollout(6).rew.tolist() == [1] * 6


@pytest.mark.parametrize(
    ("obs", "text"),
    [
        (None, r"'obs': .*got None"),
        ({"place": (np.zeros((2, 1)), np.zeros(2)), "goal": np.zeros((3, 1))}, r"'obs\.goal': .*got f64\[3,1\]"),
        ({"place": (np.zeros((2, 1)), np.float64(0)), "goal": np.zeros((2, 1))}, r"'obs\.place\.1': .*got f64"),
        ({"place": (np.zeros((2, 1)),), "goal": np.zeros((2, 1))}, r"'obs\.place\.1': the observation space has it"),
        (np.zeros((3, 1)), r"'obs': .*got f64\[3,1\]"),
    ],
)
def test_observations_of_a_reset_that_have_not_a_row_for_each(obs, text):
    class Odd(gym.vector.VectorWrapper):
        def reset(self, **given):
            return obs, self.env.reset(**given)[1]

    with pytest.raises((errors.LeafError, errors.StructureError), match=f"^field {text}"):
        Collector(Odd(sync(Nested(3), Nested(3))), zeros).rollout(4)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, [1]])
def test_a_seed_that_is_none(seed):
    collector = Collector(sync(Count(30)), zeros)
    collector.reset(seed=7)
    collector.rollout(3)
    with pytest.raises(errors.SettingError, match=r"^seed= must be a whole number >= 0 or None, got"):
        collector.reset(seed)
    assert collector.seed == 7
    assert collector.rollout(3).obs[0, 0] == 103, "the episode goes on"


def test_an_environment_that_fails_at_once():
    class Broken(Count):
        def reset(self, **_):
            raise OSError("no display")

    with pytest.raises(errors.EnvironmentFailedError, match="environment 1 raised OSError: no display"):
        Collector(sync(Count(3), Broken(3)), zeros).rollout(2)


class Lossy(gym.vector.VectorWrapper):
    """Hands on a part of the info, as vectors do that translate those of other libraries."""

    def __init__(self, envs, kept):
        super().__init__(envs)
        self.kept = kept

    def step(self, actions):
        *out, info = self.env.step(actions)
        return *out, {name: info[name] for name in self.kept if name in info}


@pytest.mark.parametrize("kept", [(), ("final_obs",), ("_final_obs",)])
def test_last_observations_that_are_not_there_are_missed(kept):
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(Lossy(sync(Count(5), Count(3)), kept), zeros)
    for _ in range(2):
        with pytest.raises(errors.StructureError, match=r"^field 'final_obs': the episode of environment 1 has ended"):
            collector.collect(buffer, 40)
    assert len(buffer) == 8, "nothing that is wrong is kept"
    assert len(Collector(Lossy(sync(Count(5), Count(3)), ("final_obs", "_final_obs")), zeros).rollout(40)) == 40


BOX = gym.spaces.Box(-1, 1, (2,))


def test_a_vector_that_does_not_say_how_it_resets_is_refused():
    envs = sync(Count(3))
    envs.metadata = {}
    with pytest.raises(errors.SettingError, match=r"SyncVectorEnv does not declare how.*AutoresetMode.SAME_STEP"):
        Collector(envs, zeros)


def test_a_vector_that_does_not_say_what_its_spaces_are_is_refused():
    class Foreign(gym.vector.VectorEnv):
        num_envs, metadata = 1, {"autoreset_mode": AutoresetMode.SAME_STEP}
        action_space, single_observation_space = gym.spaces.Discrete(2), BOX

    with pytest.raises(errors.SettingError, match=r"^Foreign has no single_action_space; a vector must have num_envs"):
        Collector(Foreign(), zeros)


WORD, WORDS = gym.spaces.Text(4), gym.spaces.Sequence(gym.spaces.Discrete(2))


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (WORD, "^obs is a Text space, whose values cannot be stored"),
        (WORDS, "^obs is a Sequence space, "),
        (gym.spaces.Graph(gym.spaces.Box(0, 1, (2,)), None), "^obs is a Graph space, "),
        (gym.spaces.OneOf([gym.spaces.Discrete(2), gym.spaces.Discrete(3)]), "^obs is a OneOf space, "),
        (gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Dict(c=WORD)), r"^obs\.b\.c is a Text space, .*Filter"),
        (gym.spaces.Tuple((gym.spaces.Discrete(2), WORDS)), r"^obs\.1 is a Sequence space, "),
    ],
)
def test_observations_that_arrays_cannot_be_made_of_are_refused(space, text):
    class Odd(Count):
        def __init__(self):
            super().__init__(3)
            self.observation_space = space

    with pytest.raises(errors.SettingError, match=text):
        Collector(sync(Odd(), Odd()), zeros)


@pytest.mark.parametrize("out", [ActStateBatch(act=np.zeros(1, int), state=None), ActBatch(act=np.zeros(1, int))])
def test_a_recurrent_policy_that_gives_no_state(out):
    envs = sync(Count(3))
    with pytest.raises(
        errors.LeafError, match="field 'state': a recurrent policy must return its state for the next step"
    ):
        Collector(envs, lambda batch: out, state=np.zeros(2)).rollout(3)
    assert envs.envs[0].steps == 0


def test_something_that_is_not_a_policy():
    with pytest.raises(errors.SettingError, match="a policy must be callable with observations, got int"):
        Collector(sync(Count(3)), 3)
    with pytest.raises(errors.LeafError, match="a policy must return a batch with act, got i64"):
        Collector(sync(Count(3)), lambda batch: np.zeros(1, np.int64)).rollout(1)


PAIR = gym.spaces.Dict({"arm": BOX, "grip": gym.spaces.Discrete(2)})


@pytest.mark.parametrize(
    ("space", "act", "error", "text"),
    [
        (gym.spaces.Discrete(3), np.zeros(2), errors.LeafError, r"Discrete\(3\) takes int64, got f64\[2\]"),
        (gym.spaces.Discrete(3), np.zeros((2, 1), int), errors.StructureError, r"expected shape \[2\] for 2 env"),
        (
            gym.spaces.Discrete(3), np.array([0, 3]), errors.StructureError,
            r"expected actions in Discrete\(3\), got values from 0 to 3",
        ),
        (gym.spaces.Discrete(3, start=1), np.array([0, 1]), errors.StructureError, "got values from 0 to 1"),
        (gym.spaces.Discrete(3), np.zeros(3, int), errors.StructureError, r"got i64\[3\]"),
        (gym.spaces.Discrete(2), np.zeros(2, bool), errors.LeafError, r"takes int64, got bool\[2\]; .astype\(np.int64"),
        (
            gym.spaces.MultiDiscrete([2]), np.zeros((2, 1), bool), errors.LeafError,
            r"Discrete\(\[2\]\) takes int64, got b",
        ),
        (BOX, np.zeros(2, np.float32), errors.StructureError, r"expected shape \[2, 2\]"),
        (BOX, np.full((2, 2), 1.5), errors.StructureError, "to 1.5; gymnasium.wrappers.vector.ClipAction"),
        (BOX, torch.zeros(2, 2, dtype=torch.complex64), errors.LeafError, "takes float32, got c64"),
        (PAIR, np.zeros(2), errors.StructureError, r"expected a batch of arm, grip, got f64\[2\]"),
        (PAIR, Batch(arm=np.zeros((2, 2))), errors.StructureError, "expected a batch of arm, grip, got arm"),
        (PAIR, Batch(arm=np.zeros((2, 3)), grip=np.zeros(2, int)), errors.StructureError, "'act.arm': expected shape"),
    ],
)  # fmt: skip
def test_actions_that_are_not_those_of_the_environments_are_refused_before_a_step(space, act, error, text):
    class Spaced(Count):
        def __init__(self):
            super().__init__(3)
            self.action_space = space

    envs = sync(Spaced(), Spaced())
    with pytest.raises(error, match=text):
        Collector(envs, lambda batch: Batch(act=act)).rollout(2)
    assert [env.steps for env in envs.envs] == [0, 0]


def test_what_a_policy_gives_beside_the_action_has_a_row_for_each_environment():
    def policy(batch):
        return Batch(act=np.zeros(2, np.int64), value=np.zeros(3))

    with pytest.raises(errors.StructureError, match="field 'value': a row for each of 2 environments"):
        Collector(sync(Count(3), Count(3)), policy, lambda rollout, out: rollout).rollout(2)


def test_what_a_policy_gives_stays_of_one_kind():
    sizes = iter([2, 3])

    def policy(batch):
        return Batch(act=np.zeros(2, np.int64), value=np.zeros((2, next(sizes))))

    with pytest.raises(
        errors.StructureError,
        match=r"'value': expected shape \[2, 2\] as in the steps before, got f64\[2,3\]; this is step 2",
    ):
        Collector(sync(Count(3), Count(3)), policy, lambda rollout, out: rollout).rollout(4)


def test_a_buffer_of_something_else_refuses_the_rows():
    class Spaced(Count):
        def obs(self):
            return np.zeros(2, np.float32)

        def __init__(self):
            super().__init__(3)
            self.observation_space = gym.spaces.Box(0, 1, (2,))

    buffer = VectorReplayBuffer(10, 1)
    Collector(sync(Count(3)), zeros).collect(buffer, 2)
    with pytest.raises(errors.RowAssignmentError, match="field 'obs'"):
        Collector(sync(Spaced()), lambda batch: ActBatch(act=np.zeros(1, np.int64))).collect(buffer, 2)
    assert len(buffer) == 2
