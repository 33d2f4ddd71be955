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
from typedbatch.training.collector import Collector, require_one_of, shares
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
        envs, policy, record, self._weights, options = made_of
        self._collector: Collector[Any] = (
            Collector(envs, policy, **options) if record is None else Collector(envs, policy, record, **options)
        )

    def num_envs(self) -> int:
        return self._collector.num_envs

    def pid(self) -> int:
        return os.getpid()

    def reset(self, seed: int | None) -> None:
        self._collector.reset(seed)

    def rollout(self, weights: Any, n_step: int) -> tuple[Any, CollectStats]:
        self._load(weights)
        rows = self._collector.rollout(n_step)
        return rows, self._collector.stats

    def rows(
        self, weights: Any, steps: Any, episodes: Any, random: bool
    ) -> tuple[Any, NDArray[np.intp], bool, CollectStats]:
        self._load(weights)
        batch, envs = self._collector.rows(steps, episodes, random=random)
        return batch, envs, self._collector.continues, self._collector.stats

    def _load(self, weights: Any) -> None:
        if weights is not None:
            self._weights.load_state_dict(weights)


class RayCollectors(Generic[R_co]):
    """Collectors in processes of Ray's, each with environments of its own.

    They are used as a :class:`~typedbatch.training.Collector` is.

    Each call hands all workers the newest weights, which go into Ray's object store once, and again only when they have
    changed. Their steps come back as read-only arrays in that store, without a copy. A worker whose process has died is
    replaced; its steps of that call are missing, and are counted in ``stats.lost``.

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
        SettingError: what :class:`~typedbatch.training.Collector` refuses.
    """

    stats: CollectStats

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
        self._sent: tuple[Any, Any] = (None, None)
        # in one object, so that the policy of a worker is a method of the very object that its weights are loaded into
        self._made_of: Any = ray.put((make_envs, policy, record, self._weights, more))
        self._remote: Any = ray.remote(**{"num_cpus": 1, **(options or {})})(_Worker)
        self._workers = [self._start() for _ in range(at_least(1, n_workers, "n_workers"))]
        self._each: int = get(self._workers[0].num_envs.remote())
        self._following = Following()
        self.stats = CollectStats()
        self.steps: int = 0
        """Steps of all calls."""

    def _start(self) -> Any:
        return self._remote.remote(self._made_of)

    @property
    def num_envs(self) -> int:
        """How many environments, of all workers."""
        return self._each * len(self._workers)

    def reset(self, seed: int | None = None) -> None:
        """As a Collector does; the seeds of a worker's environments follow those of the worker before."""
        seeds = [None if seed is None else seed + self._each * place for place in range(len(self._workers))]
        for ref in [worker.reset.remote(one) for worker, one in zip(self._workers, seeds, strict=True)]:
            get(ref)

    def rollout(self, n_step: int) -> R_co:
        """So many steps, an equal share of each worker; as :meth:`~typedbatch.training.Collector.rollout`.

        Raises:
            EnvironmentFailedError: an environment has raised an error, or every worker has died.
        """
        begun, share = time.perf_counter(), self._share(n_step)
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
            add_rows(into, rows, its_own[envs], anew=None if goes_on and continues else its_own)
        self._following.taken(state_of(into))
        lost = sum(steps or episodes or 0 for place, (steps, episodes) in enumerate(asked) if place not in done)
        self._count([stats for *_, stats in done.values()], lost, begun)
        return self.stats

    def pids(self) -> list[int]:
        """The numbers of the workers' processes."""
        return [get(worker.pid.remote()) for worker in self._workers]

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            ray.kill(worker)

    def _share(self, n_step: int) -> int:
        return -(-at_least(1, n_step, "n_step") // len(self._workers))

    def _newest(self) -> Any:
        """The weights in the object store."""
        if self._weights is None:
            return None
        state = self._weights.state_dict()
        version = _version(state)
        if version is None or version != self._sent[0]:
            self._sent = (version, ray.put(state))
        return self._sent[1]

    def _all(self, calls: dict[int, Any]) -> dict[int, Any]:
        """What each worker gave, by its place; those that died are replaced, and give nothing."""
        done: dict[int, Any] = {}
        for place, call in calls.items():
            try:
                done[place] = get(call)
            except RayActorError:
                self._workers[place] = self._start()
        if not done:
            raise EnvironmentFailedError("every worker has died; new ones are there for the next call")
        return done

    def _count(self, parts: Sequence[CollectStats], lost: int, begun: float) -> None:
        found = CollectStats.sum(parts)
        self.stats = CollectStats(found.steps, found.returns, found.lengths, time.perf_counter() - begun, lost)
        self.steps += found.steps


def _version(state: Any) -> Any:
    """What differs when tensors have been written to since; None if it cannot be told."""
    if not isinstance(state, dict):
        return None
    tensors = list(state.values())
    if not all(hasattr(tensor, "_version") and hasattr(tensor, "data_ptr") for tensor in tensors):
        return None
    return [(tensor.data_ptr(), getattr(tensor, "_version")) for tensor in tensors]  # noqa: B009  # torch's only counter
