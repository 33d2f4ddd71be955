"""``Vector``: a common interface to gymnasium's vectors of environments in all autoreset modes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import TimeoutError as PoolTimeoutError
from queue import Empty
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy import ndarray
from numpy.typing import NDArray
from typing_extensions import override

from typedbatch._core.kinds import describe
from typedbatch._space_values import copied, nested, unnested, with_final
from typedbatch.errors import EnvironmentFailedError, SettingError, StructureError
from typedbatch.training.checks import require_outcome, require_rows_of_obs

Envs: TypeAlias = VectorEnv[Any, Any, Any]
AnyEnvs: TypeAlias = Envs | Env[Any, Any]
"""A vector of environments, or a single one."""
Mask = NDArray[np.bool_]
Outcome: TypeAlias = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]

_PARTS = ("num_envs", "single_observation_space", "single_action_space", "action_space")
_last_user: WeakKeyDictionary[AnyEnvs, list[object]] = WeakKeyDictionary()
"""The token of the ``Vector`` that last reset each vector of environments or single one, which several may share."""
_CANNOT_GO_ON = "; these environments cannot go on: pass the Collector a function that creates them"
_FOR_ERRORS = 3.0
"""Seconds to wait for an error that a process has announced. An error that cannot be pickled never arrives."""


class Step(NamedTuple):
    """A step of all environments. A mask is None if it would be False for all environments."""

    obs_next: Any
    """The observation after the step; at the end of an episode, its last observation."""
    rew: NDArray[np.float64]
    terminated: Mask
    truncated: Mask
    obs: Any
    """The observation for which the next action is chosen."""
    info: Mapping[str, Any]
    """The info that came with ``obs``."""
    skipped: Mask | None
    """Environments that were reset instead of stepped."""
    ended: Mask | None
    """Environments whose episode ended."""
    begins: Mask | None
    """Environments for which ``obs`` is the first observation of an episode."""
    last_info: Mapping[str, Any] | None
    """The info of ``obs_next`` for environments whose episode ended, unless ``info`` has it."""
    first_info: Mapping[str, Any] | None
    """The info of ``obs`` for environments whose episode ended, unless ``info`` has it."""


class Vector:
    """Environments that are stepped together, with the same interface in all autoreset modes.

    The caller sets :attr:`obs` after it has recorded a step, and not before. If anything interrupts a call in between,
    for example Ctrl-C, new episodes begin afterwards.
    """

    def __init__(self, envs: AnyEnvs | Callable[[], AnyEnvs], timeout: float | None = None) -> None:
        self._make: Callable[[], AnyEnvs] | None = None
        seconds: Any = timeout
        if not (seconds is None or (isinstance(seconds, (int, float)) and seconds > 0)):
            raise SettingError(f"timeout= must be a number of seconds above 0 or None, got {timeout!r}")
        self._timeout = timeout
        if not isinstance(envs, (VectorEnv, Env)) and callable(envs):
            self._make = envs
            envs = envs()
        self._token = object()
        self._use(envs)
        self.obs: Any = None
        """The current observation; None before the first reset, in the middle of a step, and after a failure."""
        self.position: int = 0
        """Number of steps and resets so far. Two steps are consecutive if it differs by one."""

    def _use(self, envs: Any) -> None:
        user: Any = envs.unwrapped if isinstance(envs, (VectorEnv, Env)) else None
        if isinstance(envs, Env):
            envs = SingleEnv(envs)
        if not isinstance(envs, VectorEnv):
            raise SettingError(
                f"expected a gymnasium.vector.VectorEnv or a gymnasium.Env, got {describe(envs)}; "
                "gymnasium.make_vec(id, num_envs=8) creates one"
            )
        if lacking := [name for name in _PARTS if not hasattr(envs, name)]:
            raise SettingError(f"{type(envs).__name__} has no {lacking[0]}; a vector must have {', '.join(_PARTS)}")
        self.envs: Envs = envs
        """The vector that is stepped."""
        self.num_envs: int = envs.num_envs
        self._one_each = (self.num_envs,)
        """Shape of the rewards and flags of a step."""
        self._space = envs.single_observation_space
        try:
            self._mode: AutoresetMode = AutoresetMode((envs.metadata or {}).get("autoreset_mode"))
        except ValueError:
            modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
            raise SettingError(
                f"{type(envs).__name__} does not declare how it resets its environments: set "
                f"envs.metadata['autoreset_mode'] to one of {modes}"
            ) from None
        self._last_user = _last_user.setdefault(user, [])
        self._to_reset: Mask | None = None
        self._of_resets: set[str] = set()
        """Names in the infos of resets."""
        self._has_processes = hasattr(envs.unwrapped, "parent_pipes") and hasattr(envs.unwrapped, "processes")
        self._broken: bool = False
        limit = TimeLimit(envs, self._timeout) if self._has_processes else nullcontext()
        self._answering: AbstractContextManager[None] = limit

    @property
    def goes_on(self) -> bool:
        """Whether the environments can be stepped on: they were reset here, and no step failed or was interrupted."""
        return self.obs is not None and self._last_user[0] is self._token

    def reset(self, seed: int | None = None) -> tuple[Any, Mapping[str, Any]]:
        """Begin an episode in each environment, and return the observations and infos that gymnasium returns.

        The environments get the seeds ``seed``, ``seed + 1``, ...; with None, they go on with their random states. If a
        process has failed before, the environments are created again first.
        """
        self.obs = None
        self.position += 1
        if self._broken:
            if self._make is None:
                raise EnvironmentFailedError(f"environments in processes have failed before{_CANNOT_GO_ON}")
            terminate(self.envs)
            self._use(self._make())
        self._last_user[:] = [self._token]
        obs, info = self._reset(seed=seed)
        self._to_reset = None
        self._of_resets |= info.keys()
        if seed is not None:
            self.envs.action_space.seed(seed)
        return obs, info

    def step(self, act: Any) -> Step:
        """Step each environment with its action, and return the outcome, which has one form in all autoreset modes.

        An environment that is due for a reset is reset instead. After any error, new episodes begin in all.
        """
        skipped = self._to_reset
        self.obs = None
        self.position += 1
        act = act if type(act) is ndarray else unnested(act)
        try:
            if self._has_processes:
                self._broken = True
                with self._answering:
                    obs, rew, terminated, truncated, info = self.envs.step(act)
                self._broken = False
            else:
                obs, rew, terminated, truncated, info = self.envs.step(act)
        except Exception as error:
            raise self._failure(error) from error
        if type(obs) is not ndarray or obs.shape[:1] != self._one_each:
            require_rows_of_obs(obs, self.num_envs, self._space)
        require_outcome(rew, terminated, truncated, self._one_each)
        ended = terminated | truncated
        done = ended if True in ended.tolist() else None  # faster than numpy for a few environments
        obs_next = begins = last = first = None
        if self._mode is AutoresetMode.NEXT_STEP:
            self._to_reset, begins = done, skipped
        elif done is not None and self._mode is AutoresetMode.DISABLED:
            # The environments may write into what they have returned when they are reset.
            obs_next, rew, terminated, truncated, info = map(copied, (obs, rew, terminated, truncated, info))
            begins = done
            obs, first = self._reset(options={"reset_mask": done.copy()})
        elif done is not None:
            obs_next, begins, last = _with_final(obs, info, done), done, info.get("final_info")
            if last is not None and self.envs.unwrapped is not self.envs:
                # A wrapper of the vector has put names of the last step beside those of the reset.
                first = {name: value for name, value in info.items() if name in self._of_resets}
                last = {**{name: value for name, value in info.items() if name not in first}, **last}
        if obs_next is None:
            obs_next = obs
        return Step(obs_next, rew, terminated, truncated, obs, info, skipped, done, begins, last, first)

    def _reset(self, **kwargs: Any) -> tuple[Any, Mapping[str, Any]]:
        """Call ``reset`` of the vector, and check the observations."""
        self._broken = self._has_processes
        try:
            with self._answering:
                obs, info = self.envs.reset(**kwargs)
        except Exception as error:
            raise self._failure(error) from error
        self._broken = False
        require_rows_of_obs(obs, self.num_envs, self._space)
        return obs, info

    def _failure(self, error: Exception) -> Exception:
        """Return the error to raise for an error of an environment, and note whether the processes are broken."""
        # The process of the environment that failed has ended or is late, or its code is in the traceback.
        number, late = None, False
        if self._has_processes:
            late = isinstance(error, PoolTimeoutError)
            self._broken = late or is_waiting(self.envs) or bool(failed_envs(self.envs))
            number = next(iter(failed_envs(self.envs, late=late)), None)
        else:
            inner = getattr(self.envs.unwrapped, "envs", ())
            known = {id(layer): i for i, env in enumerate(inner) for layer in (env, env.unwrapped)}
            trace = error.__traceback__
            while trace is not None:
                number = known.get(id(trace.tb_frame.f_locals.get("self")), number)
                trace = trace.tb_next
        which = "an environment" if number is None else f"environment {number}"
        reason = f"{which} raised {type(error).__name__}: {error}"
        if late:
            reason = f"{which} has not answered within {self._timeout} s"
        cannot = self._broken and self._make is None
        return EnvironmentFailedError(reason + (_CANNOT_GO_ON if cannot else "; the next call begins new episodes"))


def _with_final(obs: Any, info: Mapping[str, Any], ended: Mask) -> Any:
    """Return a copy of the observations with the last observations of the episodes that ended."""
    last, there = info.get("final_obs"), info.get("_final_obs")
    if type(obs) is ndarray and obs.dtype != object and type(last) is ndarray and type(there) is ndarray:
        numbers: list[int] = there.nonzero()[0].tolist()
        if numbers == ended.nonzero()[0].tolist():  # hot path for plain arrays
            rows = obs.copy()
            for row in numbers:
                rows[row] = last[row]
            return rows
    known = np.asarray(info.get("_final_obs", False)) & ("final_obs" in info)
    if (lacking := np.flatnonzero(ended & ~known)).size:
        raise StructureError(
            f"the episode of environment {lacking[0]} has ended, but its last observation is not in the info; with "
            "AutoresetMode.SAME_STEP a vector puts it there, with its mask as '_final_obs'. If a wrapper drops it, let "
            "the wrapper pass it on, or create the vector with AutoresetMode.NEXT_STEP",
            "final_obs",
        )
    return with_final(nested(obs), info)


class SingleEnv(SyncVectorEnv):
    """A vector of one environment, which is reset in the step that ends an episode.

    A step with arrays takes half the time that gymnasium's vector takes beyond the environment itself.
    """

    def __init__(self, env: Env[Any, Any]) -> None:
        super().__init__([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)
        self._has_arrays = type(env.observation_space) is Box and type(env.action_space) in (Box, Discrete)

    @override
    def step(self, actions: Any) -> Outcome:
        if not self._has_arrays or type(actions) is not ndarray:
            return super().step(actions)
        env, infos = self.envs[0], dict[str, Any]()
        obs, rew, terminated, truncated, info = env.step(actions[0])
        outcome = _column(rew, np.float64), _column(terminated, np.bool_), _column(truncated, np.bool_)
        if terminated or truncated:
            infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, 0)
            obs, info = env.reset()
        if info:
            infos = self._add_info(infos, info, 0)
        space: Any = self.single_observation_space
        if np.shape(obs) != space.shape:
            raise ValueError(f"observations of shape {space.shape} are declared, got one of {np.shape(obs)}")
        rows = np.empty((1, *space.shape), space.dtype)
        np.copyto(rows, np.asarray(obs)[None])
        return rows, *outcome, infos

    @override
    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        if "final_obs" in env_info:  # before ``reset``, which may write into the same arrays
            env_info = copied(env_info)
        return super()._add_info(vector_infos, env_info, env_num)


def _column(value: Any, dtype: type[np.generic]) -> NDArray[Any]:
    return np.array(value, dtype).reshape(1)


class TimeLimit:
    """A context manager, ``with TimeLimit(envs, 2.0):``, that limits the time that processes may take.

    The vector itself waits for its processes, below any wrappers. Inside the block, its methods are therefore replaced,
    and its queue of errors by this object.
    """

    def __init__(self, envs: Any, seconds: float | None) -> None:
        self._envs: Any = envs.unwrapped
        self._seconds = seconds
        self._begun = 0.0
        self._queue: Any = self._envs.error_queue
        step, reset = self._envs.step_wait, self._envs.reset_wait
        self._step: Callable[..., Any] = lambda timeout=seconds: step(timeout)
        self._reset: Callable[..., Any] = lambda timeout=seconds: reset(timeout)

    def __enter__(self) -> None:
        """Install the limits."""
        self._begun = time.monotonic()
        if self._seconds is not None:
            self._envs.step_wait, self._envs.reset_wait = self._step, self._reset
        self._envs.error_queue = self

    def __exit__(self, *_: object) -> None:
        """Remove the limits."""
        self._envs.error_queue = self._queue
        for name in ("step_wait", "reset_wait"):
            vars(self._envs).pop(name, None)

    def get(self) -> Any:
        """Return the next error from the processes, or raise a RuntimeError if none arrives in time."""
        left = _FOR_ERRORS
        if self._seconds is not None:  # the time for an error that was raised within the limit
            left = max(self._seconds - (time.monotonic() - self._begun), min(self._seconds, 1.0))
        try:
            return self._queue.get(timeout=left)
        except Empty:
            raise RuntimeError("an error that cannot be pickled, so that only its process could print it") from None


def failed_envs(envs: Any, *, late: bool = False) -> list[int]:
    """Return the indices of environments whose process has ended; with ``late``, also of those without an answer."""
    inner = envs.unwrapped
    return [
        number
        for number, (pipe, process) in enumerate(zip(inner.parent_pipes, inner.processes, strict=True))
        if pipe is None or not process.is_alive() or (late and not pipe.closed and not pipe.poll(0))
    ]


def is_waiting(envs: Any) -> bool:
    """Return whether a vector still waits for the answer to an earlier call."""
    return getattr(getattr(envs.unwrapped, "_state", None), "value", "default") not in ("default", None)


def terminate(envs: Any) -> None:
    """Kill all processes, even if they hang, and close their pipes and the vector."""
    inner = envs.unwrapped
    for process in inner.processes:
        process.kill()
    for process in inner.processes:
        process.join()
    for pipe in inner.parent_pipes:
        if pipe is not None:
            pipe.close()
    inner.closed = True
    envs.close()
