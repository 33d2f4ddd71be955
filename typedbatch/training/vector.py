"""Vectors of gymnasium's environments, in whichever way they reset themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._spaces import nested, unnested, with_final
from typedbatch._tree.leaves import KINDS, TENSOR, Tree, describe, new_tree
from typedbatch.errors import EnvironmentFailedError, SettingError, StructureError
from typedbatch.training import processes
from typedbatch.training.outcomes import require_outcome, require_rows_of_obs

Envs: TypeAlias = VectorEnv[Any, Any, Any]
Mask = NDArray[np.bool_]


_PARTS = ("num_envs", "single_observation_space", "single_action_space", "action_space")


class Step(NamedTuple):
    """A step of all environments; masks are None where no environment is in them."""

    obs_next: Any
    """What each step led to: of an episode that ended, its last observation."""
    rew: NDArray[np.float64]
    terminated: Mask
    truncated: Mask
    obs: Any
    """What the next action is chosen for."""
    info: Mapping[str, Any]
    """What comes with ``obs``."""
    skipped: Mask | None
    """Environments that were reset instead of stepped."""
    ended: Mask | None
    """Environments whose episode ended."""
    begins: Mask | None
    """Environments whose next observation is the first of an episode."""
    last_info: Mapping[str, Any] | None
    """What came with ``obs_next`` where episodes ended, if that is not in ``info``."""
    first_info: Mapping[str, Any] | None
    """What came with ``obs`` where they ended, if that is not in ``info``."""


_steps_last: WeakKeyDictionary[Envs, list[object]] = WeakKeyDictionary()
"""What has reset each vector last: several may step the same one."""


class Vector:
    """Environments that are stepped together, behind one way to end and begin episodes.

    Who steps them sets :attr:`obs` once a step is recorded, and not before. So whatever ends a call in between, Ctrl-C
    for one, new episodes begin after it.

    Args:
        envs: them, or a function that makes them; with a function they are made anew after one of them has failed.
        timeout: seconds that a step or a reset of environments in other processes may take; None for ever.

    Raises:
        SettingError: a single environment, or a vector that does not say how it resets its environments, or what their
            spaces are; or a timeout that is not a number above 0.
    """

    def __init__(self, envs: Envs | Callable[[], Envs], timeout: float | None = None) -> None:
        self._make: Callable[[], Envs] | None = None
        self._timeout = _seconds(timeout)
        if not isinstance(envs, VectorEnv) and callable(envs):
            self._make = envs
            envs = envs()
        self._me = object()
        self._take(_required(envs))
        self.obs: Any = None
        """What the next action is for; None before the first reset, in the middle of a step, and after a failure."""
        self.position: int = 0
        """Steps and resets that have begun; two steps follow each other if it is one more in the second."""

    def _take(self, envs: Envs) -> None:
        self.envs: Envs = envs
        """The vector that is stepped."""
        self.num_envs: int = envs.num_envs
        self._space = envs.single_observation_space
        self._mode = _mode(envs)
        self._steps_last = _steps_last.setdefault(envs.unwrapped, [])
        self._over: Mask | None = None
        self._has_processes = processes.has_processes(envs)
        self._broken: bool = False
        self._answering: AbstractContextManager[None] = (
            processes.Answering(envs, self._timeout) if self._has_processes else nullcontext()
        )

    @property
    def goes_on(self) -> bool:
        """Whether the environments are where this has left them, as far as it can tell."""
        return self.obs is not None and self._steps_last[0] is self._me

    def reset(self, seed: int | None = None) -> tuple[Any, Mapping[str, Any]]:
        """Begin an episode in each environment, those with the seeds ``seed``, ``seed + 1``, ....

        Raises:
            EnvironmentFailedError: one of them has raised an error, does not answer, or has done so before and cannot
                be made anew.
            LeafError: the observations have no rows.
            StructureError: they have not one for each environment.
        """
        self.obs = None
        self.position += 1
        if self._broken:
            self._make_anew()
        self._steps_last[:] = [self._me]
        self._broken = self._has_processes
        try:
            with self._answering:
                obs, info = self.envs.reset(seed=seed)
        except Exception as error:
            raise self._failure(error) from error
        self._broken = False
        require_rows_of_obs(obs, self.num_envs, self._space)
        self._over = None
        if seed is not None:
            self.envs.action_space.seed(seed)
        return obs, info

    def step(self, act: Any) -> Step:
        """Step each environment.

        Raises:
            EnvironmentFailedError: one of them has raised an error, or takes too long. All begin anew after that.
            StructureError: what they gave has not a row for each environment, or the last observation of an episode is
                not there. All begin anew after that too.
            LeafError: rewards are not numbers, or flags are not flags; likewise.
        """
        skipped = self._over
        self.obs = None
        self.position += 1
        obs, rew, terminated, truncated, info = self._stepped(act if type(act) is ndarray else unnested(act))
        require_rows_of_obs(obs, self.num_envs, self._space)
        require_outcome(rew, terminated, truncated, self.num_envs)
        ended = terminated | truncated
        done = ended if True in ended.tolist() else None  # quicker than numpy for few
        obs_next = begins = last = first = None
        if self._mode is AutoresetMode.NEXT_STEP:
            self._over, begins = done, skipped
        elif done is not None and self._mode is AutoresetMode.DISABLED:
            obs_next, begins = copied(obs), done
            obs, first = self._reset_some(done)
        elif done is not None:
            obs_next, begins, last = _with_final(obs, info, done), done, info.get("final_info")
        led_to = obs if obs_next is None else obs_next
        return Step(led_to, rew, terminated, truncated, obs, info, skipped, done, begins, last, first)

    def _stepped(self, act: Any) -> tuple[Any, Any, Any, Any, Any]:
        try:
            if not self._has_processes:
                obs, rew, terminated, truncated, info = self.envs.step(act)
            else:
                self._broken = True
                with self._answering:
                    obs, rew, terminated, truncated, info = self.envs.step(act)
                self._broken = False
        except Exception as error:
            raise self._failure(error) from error
        return obs, rew, terminated, truncated, info

    def _reset_some(self, done: Mask) -> tuple[Any, Mapping[str, Any]]:
        self._broken = self._has_processes
        try:
            with self._answering:
                obs, info = self.envs.reset(options={"reset_mask": done.copy()})
        except Exception as error:
            raise self._failure(error) from error
        self._broken = False
        require_rows_of_obs(obs, self.num_envs, self._space)
        return obs, info

    def _make_anew(self) -> None:
        if self._make is None:
            raise EnvironmentFailedError(f"environments in processes have failed before{_CANNOT_GO_ON}")
        processes.end(self.envs)
        self._take(_required(self._make()))

    def _failure(self, error: Exception) -> Exception:
        """What to raise for what an environment has raised; with a function, the vector is made anew."""
        late = self._has_processes and processes.is_timeout(error)
        if self._has_processes:
            self._broken = late or processes.is_waiting(self.envs) or bool(processes.gone(self.envs))
        number = _number_of(self.envs, error, late)
        which = "an environment" if number is None else f"environment {number}"
        reason = f"{which} raised {type(error).__name__}: {error}"
        if late:
            reason = f"{which} has not answered within {self._timeout} s"
        cannot = self._broken and self._make is None
        return EnvironmentFailedError(reason + (_CANNOT_GO_ON if cannot else "; the next call begins new episodes"))


_CANNOT_GO_ON = "; these environments cannot go on: give the Collector a function that makes them, to be called again"


def _require_final(info: Mapping[str, Any], ended: Mask) -> None:
    there = np.asarray(info.get("_final_obs", False)) & ("final_obs" in info)
    if (lacking := np.flatnonzero(ended & ~there)).size:
        raise StructureError(
            f"the episode of environment {lacking[0]} has ended, and its last observation is not in the info; with "
            "AutoresetMode.SAME_STEP a vector puts it there, and its mask as '_final_obs'. A vector or a wrapper that "
            "drops it has to hand it on, or is to be made with AutoresetMode.NEXT_STEP",
            "final_obs",
        )


def _with_final(obs: Any, info: Mapping[str, Any], ended: Mask) -> Any:
    """Observations with the last ones of episodes that ended put in."""
    last, there = info.get("final_obs"), info.get("_final_obs")
    if type(obs) is ndarray and obs.dtype != object and type(last) is ndarray and type(there) is ndarray:
        numbers: list[int] = there.nonzero()[0].tolist()
        if numbers == ended.nonzero()[0].tolist():  # quicker than for nested ones
            rows = obs.copy()
            for row in numbers:
                rows[row] = last[row]
            return rows
    _require_final(info, ended)
    return with_final(nested(obs), info)


def copied(value: Any) -> Any:
    """Return observations, actions or infos in memory of their own; objects in an array are not copied."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tree):
        return new_tree(type(value), {name: copied(part) for name, part in value.__dict__.items()})
    if KINDS[type(value)] is TENSOR:
        return value.clone()
    if isinstance(value, Mapping):
        return {name: copied(part) for name, part in value.items()}
    return tuple(map(copied, value)) if isinstance(value, tuple) else value


def _seconds(timeout: Any) -> float | None:
    if timeout is None or (isinstance(timeout, (int, float)) and timeout > 0):
        return timeout
    raise SettingError(f"timeout= is a number of seconds above 0, or None, got {timeout!r}")


def _required(envs: Any) -> Envs:
    if not isinstance(envs, VectorEnv):
        raise SettingError(
            f"a gymnasium.vector.VectorEnv is expected, got {describe(envs)}; gymnasium.make_vec(id, num_envs=8) makes "
            "one, gymnasium.vector.SyncVectorEnv([lambda: env]) one of an environment"
        )
    if lacking := [name for name in _PARTS if not hasattr(envs, name)]:
        raise SettingError(f"{type(envs).__name__} has no {lacking[0]}, which each vector has: {', '.join(_PARTS)}")
    return envs


def _mode(envs: Envs) -> AutoresetMode:
    said = (envs.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(said)
    except ValueError:
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        raise SettingError(
            f"{type(envs).__name__} does not say how it resets its environments: set "
            f"envs.metadata['autoreset_mode'] to one of {modes}"
        ) from None


def _number_of(envs: Any, error: BaseException, late: bool) -> int | None:
    """Which environment raised: the one whose process is gone, or late, or whose code is in the traceback."""
    if processes.has_processes(envs):
        return next(iter(processes.gone(envs, late=late)), None)
    inner = envs.unwrapped
    known = {id(layer): i for i, env in enumerate(getattr(inner, "envs", ())) for layer in (env, env.unwrapped)}
    trace, found = error.__traceback__, None
    while trace is not None:
        found = known.get(id(trace.tb_frame.f_locals.get("self")), found)
        trace = trace.tb_next
    return found
