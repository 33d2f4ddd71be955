"""What adding rows costs, promise by promise, beside SB3's ``ReplayBuffer.add``, which has none of them.

A transition: obs and obs_next float32 (8,), act int64, rew float64, terminated, truncated. SB3 stores ``done`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.incoming import check_rows
from typedbatch.buffers.state import state_of

from .timing import Row, row

SIZE, ENVS, _DIFFERENT = 64_000, 64, 64
TITLE = "what adding rows costs, promise by promise; the floor is SB3's add"
Call = Callable[[], Any]


def measure_promises() -> list[Row]:
    """Return the rows of the table; none if SB3 is not installed."""
    try:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer as Theirs
    except ImportError:
        return []
    rng = np.random.default_rng(0)
    out: list[Row] = []
    for envs, bar in ((1, 1.7), (ENVS, 1.75)):  # 6 and 15 us, where SB3 takes 3.6 and 8.6
        rows = [_fields(rng, envs) for _ in range(_DIFFERENT)]
        theirs = Theirs(SIZE, spaces.Box(-1, 1, (8,)), spaces.Discrete(4), n_envs=envs)
        infos: list[dict[str, Any]] = [{} for _ in range(envs)]
        given = [
            (one["obs"], one["obs_next"], one["act"], one["rew"], one["terminated"] | one["truncated"], infos)
            for one in rows
        ]
        floor = _each(lambda one: theirs.add(*one), given)
        batches = [Batch(one if envs > 1 else {name: value[0] for name, value in one.items()}) for one in rows]
        own = ReplayBuffer(SIZE) if envs == 1 else VectorReplayBuffer(SIZE, envs)
        for _ in range(2 * SIZE // envs if envs > 1 else SIZE):
            own.add(batches[0])  # type: ignore[arg-type]  # a plain batch of the fields of a rollout
        name = "one row" if envs == 1 else f"{envs} environments"
        out += [row(f"{name}: {part}", floor, call) for part, call in _parts(own, batches, envs)]
        out.append(row(f"{name}: add", floor, _each(own.add, batches), bar))
    return out


def _fields(rng: np.random.Generator, envs: int) -> dict[str, Any]:
    return {
        "obs": rng.random((envs, 8), np.float32), "act": rng.integers(0, 4, envs), "rew": rng.random(envs),
        "obs_next": rng.random((envs, 8), np.float32), "terminated": rng.random(envs) < 0.005,
        "truncated": rng.random(envs) < 0.001,
    }  # fmt: skip


def _parts(buffer: Any, batches: list[Any], envs: int) -> list[tuple[str, Call]]:
    """Return the parts of ``add``, each with what it promises."""
    state, lead = state_of(buffer), () if envs == 1 else (envs,)
    checked = [check_rows(state, batch, lead) for batch in batches]
    ids: Any = slice(0, 1) if envs == 1 else slice(None)

    def locked() -> None:
        with state.guard.lock:
            pass

    def positions(made: Any) -> Any:
        _, rew, done = made
        if envs == 1:
            return state.rings.advance_one(rew, done.item())
        return state.rings.advance(ids, state.rings.target(ids), rew, done)

    slots = 0 if envs == 1 else state.rings.target(ids)
    return [
        ("the rows themselves are written", _each(lambda one: one[0].write(slots), checked)),
        ("all shapes, dtypes and flags are checked first", _each(lambda one: check_rows(state, one, lead), batches)),
        ("slots, returns and lengths of episodes, where they began", _each(positions, checked)),
        ("an interrupt leaves whole rows", lambda: state.make_rollback(ids)),
        ("threads", locked),
    ]  # fmt: skip


def _each(call: Callable[[Any], Any], arguments: list[Any]) -> Call:
    following = cycle(arguments).__next__
    return lambda: call(following())
