"""Ctrl-C at any moment of a call: rows that go on in a buffer are steps that followed each other."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.interruptions import interrupted
from tests.training.environments import MODES, Count, sync, zeros
from tests.training.test_following import unmarked
from typedbatch import ActBatch, ActStateBatch, Batch
from typedbatch.buffers import CachedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.training import Collector

pytestmark = pytest.mark.slow
FUZZING = settings.get_current_profile_name() == "fuzz"
BUFFERS = {
    "vector": lambda: VectorReplayBuffer(400, 2),
    "prioritized": lambda: PrioritizedVectorReplayBuffer(400, 2, 0.6, 0.4),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(400), 2, 60),
}
CALLS = {
    "one step": lambda collector, buffer: collector.collect(buffer, 2),
    "two steps": lambda collector, buffer: collector.collect(buffer, 4),
    "three steps": lambda collector, buffer: collector.collect(buffer, 6),
    "episodes": lambda collector, buffer: collector.collect(buffer, n_episode=2),
    "reset": lambda collector, buffer: collector.reset(),
    "rollout": lambda collector, buffer: collector.rollout(4),
    "another buffer": lambda collector, buffer: collector.collect(VectorReplayBuffer(50, 2), 4),
    "another collector": lambda collector, buffer: Collector(collector.envs, zeros).collect(buffer, 4),
}


@pytest.fixture(autouse=True)
def gradients() -> Iterator[None]:
    """An interrupt on the last line of torch.no_grad, or of ours, leaves them off, and tests share a process."""
    yield
    torch.set_grad_enabled(True)


def started(name: str, mode: Any, **more: Any) -> tuple[Collector[Any], Any]:
    buffer = BUFFERS[name]()
    collector = Collector(sync(Count(4), Count(30), mode=mode), zeros, **more)
    collector.collect(buffer, 6)
    return collector, buffer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name in BUFFERS for call in CALLS if name == "vector" or call in ("two steps", "episodes")],
)
def test_no_step_is_missing_in_an_episode_that_goes_on(name, mode, call):
    def all_of_it(collector: Any, buffer: Any) -> Any:
        return lambda: CALLS[call](collector, buffer)

    many = interrupted(all_of_it(*started(name, mode)), 10**9)
    choice = random.Random(f"{name} {mode} {call}")
    for moment in sorted(choice.sample(range(many), min(many, 600 if FUZZING else 20))):
        collector, buffer = started(name, mode)
        interrupted(all_of_it(collector, buffer), moment)
        for _ in range(2):
            collector.collect(buffer, 6)
        rings = [buffer.main_buffer, *buffer.buffers[1:]] if name == "cached" else buffer.buffers
        rows = buffer[:]
        assert (rows.obs_next == rows.obs + 1).all()
        assert name == "cached" or unmarked(buffer) == [], (moment, [ring[:].obs[:, 0] for ring in rings])
        if name == "cached":
            check_cached(buffer, moment)


def check_cached(buffer: Any, moment: int) -> None:
    for ring in buffer.buffers:
        if len(ring) > 1:
            rows = ring[:]
            goes_on = ~(rows.terminated | rows.truncated)[:-1]
            assert (rows.obs[1:, 0] == rows.obs[:-1, 0] + 1)[goes_on].all(), moment


@pytest.mark.quick
@pytest.mark.parametrize("mode", MODES)
def test_what_goes_with_the_observations_is_of_the_same_episode(mode):
    """The state of a recurrent policy, its infos, and the returns of episodes."""

    class Says(Count):
        def reset(self, **given: Any) -> Any:
            return super().reset(**given)[0], {"at": 0}

        def step(self, action: Any) -> Any:
            *out, _ = super().step(action)
            return *out, {"at": self.step_}

    def policy(batch: Any) -> ActStateBatch:
        at = batch.obs[:, 0] % 100
        assert (batch.state[:, 0] == at).all()
        assert (batch.info.at == at).all()
        return ActStateBatch(act=np.zeros(2, np.int64), state=batch.state + 1)

    def started() -> Collector[Any]:
        collector = Collector(sync(Says(4), Says(5), mode=mode), policy, state=np.zeros(1), infos=["at"])
        collector.rollout(6)
        return collector

    def calls(collector: Collector[Any]) -> Any:
        return lambda: (collector.collect(VectorReplayBuffer(50, 2), 4), collector.reset())

    many = interrupted(calls(started()), 10**9)
    choice = random.Random(f"{mode}")
    for moment in sorted(choice.sample(range(many), min(many, 600 if FUZZING else 60))):
        collector = started()
        interrupted(calls(collector), moment)
        collector.rollout(40)
        assert set(collector.last_stats.lengths.tolist()) == {4, 5}, moment


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.timeout(method="thread")  # as it takes the timer and the signal that the limit uses otherwise
@pytest.mark.parametrize("n_step", [2, 4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_at_any_time(mode, n_step, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # it may fall into a finaliser
    choice, armed, rang = random.Random(f"{mode} {n_step}"), False, False
    buffer = VectorReplayBuffer(20_000, 2)
    collector = Collector(sync(Count(7), Count(40), mode=mode), lambda batch: ActBatch(act=np.zeros(2, np.int64)))

    def interrupt(*_: Any) -> None:
        nonlocal rang
        if armed:
            rang = True
            raise KeyboardInterrupt

    def collect_until_it_rang() -> None:
        while not rang:
            collector.collect(buffer, n_step)

    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(300 if FUZZING else 60):
        try:
            try:
                armed, rang = True, False
                signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-5, 1e-3))
                collect_until_it_rang()
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:  # after the alarm is off: Python 3.12 may be interrupted once more after an except
            pass
    assert len(buffer)
    assert Batch(next=buffer[:].obs_next) == Batch(next=buffer[:].obs + 1)
    assert unmarked(buffer) == []
