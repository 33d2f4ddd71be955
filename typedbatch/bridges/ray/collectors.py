"""``RayCollectors``: collectors in other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError
from typing_extensions import ParamSpec, TypeVar

from typedbatch._tree.leaves import describe
from typedbatch._tree.rows import at_least
from typedbatch._typing import Array
from typedbatch.batch import Batch
from typedbatch.bridges.ray.calls import get
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import EnvironmentFailedError, SettingError
from typedbatch.protocols import ActBatchProtocol, BatchProtocol
from typedbatch.records import RolloutBatch
from typedbatch.training.collector import Collector, require_one_of, require_seed, shares, warn_of_stats
from typedbatch.training.following import Following
from typedbatch.training.policy import A, ArrayPolicy, Obs, Policy
from typedbatch.training.rings import add_rows, require_rings
from typedbatch.training.stats import CollectStats
from typedbatch.training.vector import Envs

if TYPE_CHECKING:
    pass

B = TypeVar("B", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class Weights(Protocol):
    """What has weights that actions depend on, such as a torch module."""

    def state_dict(self) -> Any:
        """The weights."""
        ...

    def load_state_dict(self, state_dict: Any, /) -> object:
        """Take over weights."""
        ...


class _Worker:
    """A collector in a process of its own."""

    def __init__(self, made_of: Any) -> None:
        self._made_of = made_of
        self._collector: Collector[Any]

    def start(self) -> int:
        """Make the environments, and return how many. Of what a constructor raises, Ray hands on the text alone."""
        make_envs, policy, record, self._weights, options = self._made_of

        def make() -> Envs:
            try:
                envs: Envs = make_envs()
            except Exception as error:
                raise EnvironmentFailedError(f"make_envs() raised {type(error).__name__}: {error}") from error
            return envs

        self._collector = (
            Collector(make, policy, **options) if record is None else Collector(make, policy, record, **options)
        )
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
    """Collectors in processes of Ray's, each with environments of its own.

    They are used as a :class:`~typedbatch.training.Collector` is.

    Each call hands all workers the newest weights, which go into Ray's object store once. Their steps come back as
    read-only arrays in that store, without a copy. A worker whose process has died is replaced; its steps of that call
    are missing, and are counted in ``last_stats.lost``.

    Args:
        make_envs: makes the environments of a worker, in its process.
        policy: what chooses the actions. It is copied to the workers with the object that it is a method of.
        n_workers: how many processes.
        record: as for a Collector.
        weights: what the policy's weights are in; None for the object that the policy is a method of, if it has
            ``state_dict`` and ``load_state_dict``.
        options: for the processes, as ``ray.remote`` takes them: ``{"num_cpus": 1}``.
        **more: ``state``, ``infos``, ``timeout``, as for a Collector.

    Raises:
        SizeError: fewer than one worker.
        SettingError: what :class:`~typedbatch.training.Collector` refuses; workers with different numbers of
            environments; more CPUs, or other resources, than all nodes of this Ray have.
        EnvironmentFailedError: ``make_envs`` raises an error.
    """

    last_stats: CollectStats

    @overload
    def __init__(
        self: RayCollectors[RolloutBatch],
        make_envs: Callable[[], Envs],
        policy: Policy[ActBatchProtocol[Any, Any], object],
        n_workers: int,
        *,
        weights: Weights | None = ...,
        options: dict[str, Any] | None = ...,
        **more: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RayCollectors[RolloutBatch[Array, Obs]],
        make_envs: Callable[[], Envs],
        policy: ArrayPolicy[ActBatchProtocol[Any, Any], Obs],
        n_workers: int,
        *,
        weights: Weights | None = ...,
        options: dict[str, Any] | None = ...,
        **more: Any,
    ) -> None: ...
    @overload
    def __init__(
        self,
        make_envs: Callable[[], Envs],
        policy: ArrayPolicy[A, Obs],
        n_workers: int,
        record: Callable[[RolloutBatch[Array, Obs], A], R_co],
        *,
        weights: Weights | None = ...,
        options: dict[str, Any] | None = ...,
        **more: Any,
    ) -> None: ...
    def __init__(
        self,
        make_envs: Callable[[], Envs],
        policy: Any,
        n_workers: int,
        record: Any = None,
        *,
        weights: Weights | None = None,
        options: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        if not callable(make_envs):
            raise SettingError(f"a function that makes environments is expected, got {describe(make_envs)}")
        owner = getattr(policy, "__self__", None)
        has_weights = hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict")
        self._weights: Any = owner if weights is None and has_weights else weights
        given = {"num_cpus": 1, **(options or {})}
        count = at_least(1, n_workers, "n_workers")
        # in one object, so that the policy of a worker is a method of the very object that its weights are loaded into
        self._made_of: Any = ray.put((make_envs, policy, record, self._weights, more))
        _require_resources(count, given)
        self._remote: Any = ray.remote(**given)(_Worker)
        self._workers: list[Any] = [None] * count
        self._each: int = 0
        self._fill_places()
        self._following = Following()
        self.last_stats = CollectStats()
        self.steps: int = 0
        """Steps of all calls."""

    def _fill_places(self) -> None:
        """Start a worker in each place where there is none, or where it has died."""
        new = {place: self._remote.remote(self._made_of) for place, one in enumerate(self._workers) if one is None}
        try:
            counts = [int(get(ref)) for ref in [worker.start.remote() for worker in new.values()]]
            self._each = _same([*counts, *([self._each] if self._each else [])])
        except BaseException as error:
            for worker in new.values():
                ray.kill(worker)
            if isinstance(error, RayActorError):
                raise EnvironmentFailedError(f"a worker has died while it made its environments: {error}") from error
            raise
        for place, worker in new.items():
            self._workers[place] = worker

    @property
    def stats(self) -> CollectStats:
        """The old name of :attr:`last_stats`."""
        warn_of_stats()
        return self.last_stats

    @property
    def num_envs(self) -> int:
        """How many environments, of all workers."""
        return self._each * len(self._workers)

    def reset(self, seed: int | None = None) -> None:
        """As a Collector does; the seeds of a worker's environments follow those of the worker before.

        Raises:
            SettingError: a seed that is not a whole number from 0 on.
            EnvironmentFailedError: an environment has raised an error, or a worker dies again and again.
        """
        first = None if seed is None else require_seed(seed)
        seeds = [None if first is None else first + self._each * place for place in range(len(self._workers))]
        self._of_each(lambda worker, place: worker.reset.remote(seeds[place]))

    def rollout(self, n_step: int) -> R_co:
        """So many steps, an equal share of each worker; as :meth:`~typedbatch.training.Collector.rollout`.

        Raises:
            EnvironmentFailedError: an environment has raised an error, or every worker has died.
        """
        begun, share = time.perf_counter(), self._share(n_step)
        self._fill_places()
        weights = self._newest()
        done = self._all({place: one.rollout.remote(weights, share) for place, one in enumerate(self._workers)})
        self._count([stats for _, stats in done.values()], share * (len(self._workers) - len(done)), begun)
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
        """Add so many steps, or episodes, to a buffer with a ring for each environment of each worker.

        Args:
            into: a buffer with a ring for each environment.
            n_step: as for :meth:`~typedbatch.training.Collector.collect`, an equal share of each worker.
            n_episode: whole episodes; each worker brings its share, the first ones one more where it does not divide.
            random: choose random actions instead of the policy's.

        Raises:
            SettingError: what :meth:`~typedbatch.training.Collector.collect` refuses.
            EnvironmentFailedError: an environment has raised an error, or every worker has died.
        """
        require_rings(into, self.num_envs)
        require_one_of(n_step, n_episode)
        self._fill_places()
        begun, weights, count = time.perf_counter(), self._newest(), len(self._workers)
        asked: list[tuple[int | None, int | None]]
        if n_step is not None:
            asked = [(self._share(n_step), None)] * count
        else:
            asked = [(None, share) for share in shares(at_least(1, n_episode, "n_episode"), count).tolist()]
        places = [place for place, one in enumerate(asked) if any(one)]
        goes_on = self._following.follows(state_of(into))
        self._following.lose()  # what is not added is gone
        done = self._all({place: self._workers[place].rows.remote(weights, *asked[place], random) for place in places})
        for place, (rows, envs, continues, _) in done.items():
            its_own = place * self._each + np.arange(self._each)
            add_rows(into, rows, its_own[envs], new_episodes=None if goes_on and continues else its_own)
        self._following.taken(state_of(into))
        lost = sum(steps or episodes or 0 for place, (steps, episodes) in enumerate(asked) if place not in done)
        self._count([stats for *_, stats in done.values()], lost, begun)
        return self.last_stats

    def pids(self) -> list[int]:
        """The numbers of the workers' processes; those that have died are replaced first."""
        return self._of_each(lambda worker, _: worker.pid.remote())

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            if worker is not None:
                ray.kill(worker)

    def _share(self, n_step: int) -> int:
        return -(-at_least(1, n_step, "n_step") // len(self._workers))

    def _newest(self) -> Any:
        """The weights in the object store. Nothing that a tensor says of itself tells that it was not written to."""
        return None if self._weights is None else ray.put(self._weights.state_dict())

    def _of_each(self, call: Callable[[Any, int], Any]) -> list[Any]:
        """What each worker gives; one that has died is replaced, and its successor is asked."""
        self._fill_places()
        places = range(len(self._workers))
        for _ in range(_TRIES):
            done = self._given({place: call(self._workers[place], place) for place in places})
            if len(done) == len(self._workers):
                return list(done.values())
            self._fill_places()
        raise EnvironmentFailedError(f"workers have died {_TRIES} times, one after the other")

    def _given(self, calls: dict[int, Any]) -> dict[int, Any]:
        """What each worker gave, by its place; those that died give nothing, and their places are empty."""
        done: dict[int, Any] = {}
        for place, call in calls.items():
            try:
                done[place] = get(call)
            except RayActorError:
                ray.kill(self._workers[place])  # it may only be out of reach
                self._workers[place] = None
        return done

    def _all(self, calls: dict[int, Any]) -> dict[int, Any]:
        """What each worker gave, by its place.

        Raises:
            EnvironmentFailedError: none gave anything.
        """
        done = self._given(calls)
        if not done:
            raise EnvironmentFailedError("every worker has died; new ones are there for the next call")
        return done

    def _count(self, parts: Sequence[CollectStats], lost: int, begun: float) -> None:
        found = CollectStats.sum(parts)
        self.last_stats = CollectStats(found.steps, found.returns, found.lengths, time.perf_counter() - begun, lost)
        self.steps += found.steps


_TRIES = 3
"""How often a worker that has died is replaced in one call."""


def _same(counts: list[int]) -> int:
    """Return how many environments each worker has.

    Raises:
        SettingError: some have more than others.
    """
    different = sorted(set(counts))
    if len(different) > 1:
        got = " and ".join(map(str, different))
        raise SettingError(f"make_envs() makes the same number of environments in each worker, got {got}")
    return different[0]


def _require_resources(workers: int, options: dict[str, Any]) -> None:
    """Raise an error if Ray could not start all workers, and would wait for ever.

    Raises:
        SettingError: all nodes together have fewer CPUs, or others of what is asked for.
    """
    each = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    there = ray.cluster_resources()
    for name, amount in each.items():
        needed, has = workers * (amount or 0), there.get(name, 0)
        if needed > has:
            raise SettingError(
                f"{workers} workers need {needed:g} {name}, and this Ray has {has:g}, which is {needed - has:g} "
                "too few; take fewer workers, give each less by options={'num_cpus': 0.5}, or start Ray with more"
            )
