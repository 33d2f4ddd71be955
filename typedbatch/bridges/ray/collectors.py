"""Collectors that run in other processes: ``RayCollectors``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, overload

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError
from typing_extensions import ParamSpec, TypeVar

from typedbatch._core.kinds import describe
from typedbatch._core.lengths import require_at_least
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.bridges.ray.remote import get
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import EnvironmentFailedError, SettingError
from typedbatch.protocols import ActBatchProtocol, BatchProtocol
from typedbatch.records import RolloutBatch
from typedbatch.training.add_rollout import ContinuityToken, add_rollout, require_rings
from typedbatch.training.collector import Collector, episode_quotas, require_one_of, require_seed
from typedbatch.training.env_vector import Envs
from typedbatch.training.policy import A, ArrayPolicy, Obs, Policy
from typedbatch.training.stats import CollectStats

B = TypeVar("B", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)
P = ParamSpec("P")
T = TypeVar("T")
_TRIES = 3
"""Number of times that workers which have died are replaced in one call."""


class Weights(Protocol):
    """An object with weights that actions depend on, such as a torch module."""

    def state_dict(self) -> Any:
        """Return the weights."""
        ...

    def load_state_dict(self, state_dict: Any, /) -> object:
        """Load weights."""
        ...


class _Worker:
    """A collector in its own process."""

    def __init__(self, arguments: Any) -> None:
        self._arguments = arguments
        self._collector: Collector[Any]

    def start(self) -> int:
        """Create the environments, and return their number; of an error in a constructor, Ray returns only the text."""
        make_envs, policy, record, self._weights, options = self._arguments

        def make() -> Envs:
            try:
                envs: Envs = make_envs()
            except Exception as error:
                raise EnvironmentFailedError(f"make_envs() raised {type(error).__name__}: {error}") from error
            return envs

        self._collector = Collector(make, policy, record, **options)
        return self._collector.num_envs

    def pid(self) -> int:
        return os.getpid()

    def reset(self, seed: int | None) -> None:
        self._collector.reset(seed)

    def rollout(self, weights: Any, n_step: int) -> tuple[Any, CollectStats]:
        self._load(weights)
        rows = self._collector.rollout(n_step)
        return rows, self._collector.last_stats

    def rows(
        self, weights: Any, steps: Any, episodes: Any, random: bool
    ) -> tuple[Any, NDArray[np.intp], bool, CollectStats]:
        self._load(weights)
        batch, envs = self._collector.rows(steps, episodes, random=random)
        return batch, envs, self._collector.continues, self._collector.last_stats

    def _load(self, weights: Any) -> None:
        if weights is not None:
            self._weights.load_state_dict(weights)


class RayCollectors(Generic[R_co]):
    """Collectors in processes of Ray, each with its own environments.

    They are used like a :class:`~typedbatch.training.Collector`. Each call sends all workers the newest weights, which
    are put into Ray's object store once. The steps are returned as read-only arrays in that store, without a copy. If
    the process of a worker dies, it is replaced. Its steps of that call are missing, and ``last_stats.lost`` counts
    them.

    Args:
        make_envs: Function that creates the environments of a worker, in the worker's process.
        policy: The policy. It is copied to the workers together with the object that it is a method of.
        n_workers: Number of processes.
        record: As for a Collector.
        weights: The object that holds the policy's weights. None means the object that the policy is a method of, if it
            has ``state_dict`` and ``load_state_dict``.
        options: Options of ``ray.remote`` for the processes, such as ``{"num_cpus": 1}``.
        **more: ``state``, ``infos`` and ``timeout``, as for a Collector.

    Raises:
        SizeError: ``n_workers`` is below 1.
        SettingError: :class:`~typedbatch.training.Collector` refuses an argument, workers have different numbers of
            environments, or the workers need more CPUs or other resources than all nodes of this Ray have.
        EnvironmentFailedError: ``make_envs`` raises an error.
    """

    last_stats: CollectStats

    @overload
    def __init__(
        self: RayCollectors[RolloutBatch], make_envs: Callable[[], Envs],
        policy: Policy[ActBatchProtocol[Any, Any], object], n_workers: int,
        *, weights: Weights | None = ..., options: dict[str, Any] | None = ..., **more: Any,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: RayCollectors[RolloutBatch[Array, Obs]], make_envs: Callable[[], Envs],
        policy: ArrayPolicy[ActBatchProtocol[Any, Any], Obs], n_workers: int,
        *, weights: Weights | None = ..., options: dict[str, Any] | None = ..., **more: Any,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, make_envs: Callable[[], Envs],
        policy: ArrayPolicy[A, Obs], n_workers: int, record: Callable[[RolloutBatch[Array, Obs], A], R_co],
        *, weights: Weights | None = ..., options: dict[str, Any] | None = ..., **more: Any,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, make_envs: Callable[[], Envs], policy: Any, n_workers: int, record: Any = None,
        *, weights: Weights | None = None, options: dict[str, Any] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        if not callable(make_envs):
            raise SettingError(f"RayCollectors() takes a function that creates environments, got {describe(make_envs)}")
        owner = getattr(policy, "__self__", None)
        has_weights = hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict")
        self._weights: Any = owner if weights is None and has_weights else weights
        given = {"num_cpus": 1, **(options or {})}
        count = require_at_least(1, n_workers, "n_workers")
        # in one object, so that a worker's policy is a method of the same object that its weights are loaded into
        self._arguments: Any = ray.put((make_envs, policy, record, self._weights, more))
        _require_resources(count, given)
        self._remote: Any = ray.remote(**given)(_Worker)
        self._workers: list[Any] = [None] * count
        self._envs_per_worker: int = 0
        self._replace_workers()
        self._continuity = ContinuityToken()
        self.last_stats = CollectStats()
        self.steps: int = 0
        """Total number of environment steps so far."""

    def _replace_workers(self) -> None:
        """Start a worker at each position that has none, because none was started yet or it has died."""
        missing = [index for index, worker in enumerate(self._workers) if worker is None]
        new = {index: self._remote.remote(self._arguments) for index in missing}
        try:
            counts = [int(get(ref)) for ref in [worker.start.remote() for worker in new.values()]]
            different: list[int] = sorted({*counts, self._envs_per_worker} - {0})
            if len(different) > 1:
                got = " and ".join(map(str, different))
                raise SettingError(f"make_envs() must create the same number of environments in each worker, got {got}")
            self._envs_per_worker = different[0]
        except BaseException as error:
            for worker in new.values():
                ray.kill(worker)
            if isinstance(error, RayActorError):
                raise EnvironmentFailedError(f"a worker has died while it created its environments: {error}") from error
            raise
        for index, worker in new.items():
            self._workers[index] = worker

    @property
    def num_envs(self) -> int:
        """Number of environments of all workers together."""
        return self._envs_per_worker * len(self._workers)

    def reset(self, seed: int | None = None) -> None:
        """Reset all environments, as a Collector does.

        The seeds of a worker's environments follow those of the previous worker.

        Raises:
            SettingError: ``seed`` is not a whole number from 0 up.
            EnvironmentFailedError: an environment has raised an error, or workers die again and again.
        """
        first, step = (None, 0) if seed is None else (require_seed(seed), self._envs_per_worker)
        self._call_each(lambda worker, index: worker.reset.remote(None if first is None else first + step * index))

    def rollout(self, n_step: int) -> R_co:
        """Return ``n_step`` steps, of which each worker collects an equal share.

        The result is like that of :meth:`~typedbatch.training.Collector.rollout`.

        Raises:
            EnvironmentFailedError: an environment has raised an error, or every worker has died.
        """
        begun, share = time.perf_counter(), self._share(n_step)
        self._replace_workers()
        weights = self._put_weights()
        done = self._results_of_any(lambda worker, _: worker.rollout.remote(weights, share), range(len(self._workers)))
        self._record_stats([stats for _, stats in done.values()], share * (len(self._workers) - len(done)), begun)
        rows: R_co = Batch.cat([rows for rows, _ in done.values()])
        return rows

    def collect(
        self,
        into: ReplayBuffer[R_co, Any],
        n_step: int | None = None,
        n_episode: int | None = None,
        *,
        random: bool = False,
    ) -> CollectStats:
        """Add ``n_step`` steps, or ``n_episode`` episodes, to a buffer with a ring for each environment of each worker.

        Args:
            into: A buffer with a ring for each environment.
            n_step: Number of steps, as for :meth:`~typedbatch.training.Collector.collect`. Each worker collects an
                equal share.
            n_episode: Number of whole episodes. Each worker collects a share; the first workers collect one more if the
                number cannot be divided equally.
            random: Whether to choose random actions instead of the policy's.

        Raises:
            SettingError: :meth:`~typedbatch.training.Collector.collect` refuses an argument.
            EnvironmentFailedError: an environment has raised an error, or every worker has died.
        """
        require_rings(into, self.num_envs)
        require_one_of(n_step, n_episode)
        self._replace_workers()
        begun, weights, count = time.perf_counter(), self._put_weights(), len(self._workers)
        requests: list[tuple[int | None, int | None]]
        if n_step is not None:
            requests = [(self._share(n_step), None)] * count
        else:
            quotas = episode_quotas(require_at_least(1, n_episode, "n_episode"), count)
            requests = [(None, share) for share in quotas.tolist()]
        busy = [index for index, request in enumerate(requests) if any(request)]
        state = state_of(into)
        goes_on, mark = self._continuity.follows(state), state.guard.mark
        self._continuity.lose()  # if the call fails, steps are lost and episodes cannot be continued
        done = self._results_of_any(lambda worker, i: worker.rows.remote(weights, *requests[i], random), busy)
        with state.guard.lock:
            goes_on &= state.guard.mark is mark  # nothing else has added rows during the call
            for index, (rows, envs, continues, _) in done.items():
                rings = index * self._envs_per_worker + np.arange(self._envs_per_worker)
                add_rollout(into, rows, rings[envs], new_episodes=None if goes_on and continues else rings)
            self._continuity.taken(state)
        lost = sum(steps or episodes or 0 for index, (steps, episodes) in enumerate(requests) if index not in done)
        self._record_stats([stats for *_, stats in done.values()], lost, begun)
        return self.last_stats

    def pids(self) -> list[int]:
        """Return the process ids of the workers. Workers that have died are replaced first."""
        return self._call_each(lambda worker, _: worker.pid.remote())

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            if worker is not None:
                ray.kill(worker)

    def _share(self, n_step: int) -> int:
        return -(-require_at_least(1, n_step, "n_step") // len(self._workers))

    def _put_weights(self) -> Any:
        """Put the weights into the object store at each call, as tensors do not show whether they were written to."""
        return None if self._weights is None else ray.put(self._weights.state_dict())

    def _call_each(self, call: Callable[[Any, int], Any]) -> list[Any]:
        """Return the result of each worker. A worker that has died is replaced, and the call is repeated."""
        self._replace_workers()
        workers = range(len(self._workers))
        for _ in range(_TRIES):
            done = self._results(call, workers)
            if len(done) == len(self._workers):
                return list(done.values())
            self._replace_workers()
        raise EnvironmentFailedError(f"workers have died {_TRIES} times in a row")

    def _results(self, call: Callable[[Any, int], Any], workers: Iterable[int]) -> dict[int, Any]:
        """Return the results of workers by their position, and empty the positions of workers that have died."""
        done: dict[int, Any] = {}
        for index, ref in {index: call(self._workers[index], index) for index in workers}.items():
            try:
                done[index] = get(ref)
            except RayActorError:
                ray.kill(self._workers[index])  # the process may only be unreachable
                self._workers[index] = None
        return done

    def _results_of_any(self, call: Callable[[Any, int], Any], workers: Iterable[int]) -> dict[int, Any]:
        """Return the results of workers by their position, unless every worker has died."""
        done = self._results(call, workers)
        if not done:
            raise EnvironmentFailedError("every worker has died; call again to start new ones")
        return done

    def _record_stats(self, parts: Sequence[CollectStats], lost: int, begun: float) -> None:
        found = CollectStats.sum(parts)
        self.last_stats = CollectStats(found.steps, found.returns, found.lengths, time.perf_counter() - begun, lost)
        self.steps += found.steps


def _require_resources(workers: int, options: dict[str, Any]) -> None:
    """Raise an error if Ray could not start all workers and would wait for ever."""
    each = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    available = ray.cluster_resources()
    for name, amount in each.items():
        needed, has = workers * (amount or 0), available.get(name, 0)
        if needed > has:
            raise SettingError(
                f"{workers} workers need {needed:g} {name}, but this Ray has {has:g}, which is {needed - has:g} "
                "too few; use fewer workers, give each less by options={'num_cpus': 0.5}, or start Ray with more"
            )
