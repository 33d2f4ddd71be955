"""Training as an iterator of epochs: the ``for`` loop around it is the trainer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._tree.leaves import describe
from typedbatch._tree.rows import at_least
from typedbatch.buffers import ReplayBuffer
from typedbatch.errors import LeafError, SettingError, SizeError
from typedbatch.protocols import BatchProtocol
from typedbatch.training.bar import Bar
from typedbatch.training.collector import Collector
from typedbatch.training.rings import require_rings
from typedbatch.training.seeds import Random
from typedbatch.training.stats import CollectStats

R = TypeVar("R", bound=BatchProtocol)
S = TypeVar("S", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)

Slots: TypeAlias = NDArray[np.intp]
Losses: TypeAlias = Mapping[str, float]
"""What an update says of itself: numbers by name."""


class Source(Protocol[R_co]):
    """Where rollouts come from: a :class:`Collector`, or several in other processes."""

    @property
    def last_stats(self) -> CollectStats:
        """What the last call has brought."""
        ...

    def rollout(self, n_step: int) -> R_co:
        """So many steps."""
        ...


class BufferSource(Protocol[R_co]):
    """What fills a buffer: a :class:`Collector`, or several in other processes."""

    @property
    def num_envs(self) -> int:
        """How many environments."""
        ...

    def collect(self, into: ReplayBuffer[R_co, Any], n_step: int, *, random: bool = ...) -> CollectStats:
        """Add so many steps."""
        ...


@dataclass(frozen=True)
class Epoch:
    """What happened in an epoch."""

    number: int
    """From 1 on."""
    step: int
    """Environment steps so far in all epochs and environments, which is the number of rows."""
    updates: int
    """Calls of ``update`` so far, of all epochs, without those that gave None."""
    collected: CollectStats
    """Steps and episodes of this epoch in all its collections, as in ``epoch.collected.returns``."""
    losses: dict[str, float]
    """Means over the updates of this epoch."""
    seconds: dict[str, float]
    """Time for ``"collect"`` and for ``"update"``."""

    def metrics(self) -> dict[str, float]:
        """All of it as numbers by name, for a logger: ``"collect/return"``, ``"loss/td"``, ``"seconds/update"``."""
        out = {f"loss/{name}": value for name, value in self.losses.items()}
        out |= {f"seconds/{name}": value for name, value in self.seconds.items()}
        out |= {"collect/steps": float(self.collected.steps), "collect/episodes": float(self.collected.episodes)}
        if self.collected.episodes:
            out |= {"collect/return": self.collected.mean, "collect/length": float(self.collected.lengths.mean())}
        return out


class Writer(Protocol):
    """What takes numbers by name, as TensorBoard's ``SummaryWriter`` does."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> object:
        """Take a number."""
        ...


class Training(Iterator[Epoch]):
    """Epochs, one after the other. Between two of them everything may be done: test, log, save, anneal, stop.

    Made by :func:`on_policy` and :func:`off_policy`.

    Args:
        kind: what is trained in which way; a state of another one is not loaded.
        collect_and_update: does so once; it is called with this and with the steps that the epoch still has.
        epoch_steps: environment steps of an epoch.
        total_steps: environment steps of all epochs, of which the last one may have fewer.
        parts: what has random numbers that belong to the training: a collector, a buffer.
        log: what takes :meth:`Epoch.metrics` after each epoch.
        progress: whether a bar shows how far it is. Needs the extra ``cli``.
    """

    def __init__(
        self,
        kind: dict[str, Any],
        collect_and_update: Callable[[Training, int], None],
        *,
        epoch_steps: int,
        total_steps: int,
        parts: Random,
        log: Writer | None,
        progress: bool,
    ) -> None:
        self._kind = kind
        self._collect_and_update = collect_and_update
        self.total_steps: int = total_steps
        """Environment steps that were asked for."""
        self.epochs: int = -(-total_steps // epoch_steps)
        """How many epochs they are, or fewer if a rollout is longer than an epoch."""
        self._epoch_steps = epoch_steps
        self._random = parts
        self._log = log
        self._bar = Bar(total_steps) if progress else None
        self.number: int = 0
        """Epochs so far."""
        self.step: int = 0
        """Environment steps so far."""
        self.updates: int = 0
        """Calls of ``update`` so far."""
        self.due: float = 0.0
        """Updates that are still to be made for steps so far, less than one."""
        self._clear()

    def _clear(self) -> None:
        self._collected: list[CollectStats] = []
        self._losses: dict[str, list[float]] = defaultdict(list)
        self._seconds = 0.0

    def __next__(self) -> Epoch:
        """The next epoch.

        Raises:
            StopIteration: there were as many as there are to be.
        """
        if self.step >= self.total_steps:
            if self._bar is not None:
                self._bar.close()
            raise StopIteration
        self._clear()
        end = min((self.step // self._epoch_steps + 1) * self._epoch_steps, self.total_steps)
        while self.step < end:
            self._collect_and_update(self, end - self.step)
            if self._bar is not None:
                self._bar.show(self.step)
        self.number += 1
        return self._logged(self._epoch())

    def _epoch(self) -> Epoch:
        collected = CollectStats.sum(self._collected)
        losses = {name: float(np.mean(values)) for name, values in self._losses.items()}
        seconds = {"collect": collected.seconds, "update": self._seconds}
        return Epoch(self.number, self.step, self.updates, collected, losses, seconds)

    def _logged(self, epoch: Epoch) -> Epoch:
        if self._log is not None:
            for name, value in epoch.metrics().items():
                self._log.add_scalar(name, value, epoch.step)
        return epoch

    def collected(self, stats: CollectStats) -> None:
        """Count in what was collected."""
        self.step += stats.steps
        self._collected.append(stats)

    def update(self, update: Callable[..., Losses | None], *args: Any) -> None:
        """Call an update, and count it in unless it gives None, which says that there was none.

        Raises:
            LeafError: it gives something else than numbers by name.
        """
        begun = time.perf_counter()
        losses: Any = update(*args)
        self._seconds += time.perf_counter() - begun
        if losses is None:
            return
        self.updates += 1
        if not isinstance(losses, Mapping):
            raise LeafError(f"update() gives numbers by name, as {{'loss': 0.5}}, got {describe(losses)}")
        for name, value in losses.items():
            try:
                self._losses[name].append(float(value))
            except (TypeError, ValueError, RuntimeError):
                raise LeafError(f"update() gives numbers by name, got {describe(value)}", str(name)) from None

    # ---- resuming -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """How far the training has come, in numbers, text and tensors, as ``torch.save`` takes it.

        What the policy, the optimizer and the buffer hold is theirs to save. Environments cannot be saved, so they all
        begin a new episode when this is called, with a seed that is in the state: a training that goes on and one that
        is resumed do the same then. Random numbers of torch and of the buffer are in the state too.
        """
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {"kind": self._kind, **counts, "due": self.due, "random": self._random.state(self.step)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another training was when its :meth:`state_dict` was asked.

        Raises:
            SettingError: it is that of something else, or of a training with other settings. Nothing was changed.
            EnvironmentFailedError: the environments, which begin new episodes, have failed. Nothing else was changed.
        """
        if not isinstance(state_dict, Mapping):
            raise SettingError(f"a dict is expected, as state_dict() gives it, got {describe(state_dict)}")
        kind = state_dict.get("kind")
        if kind != self._kind:
            raise SettingError(f"a state of {self._kind} is expected, got one of {kind}")
        counts = {name: _count(state_dict, name) for name in _COUNTS}
        due = _part(state_dict)
        self._random.load(state_dict.get("random"))
        vars(self).update(counts, due=due)


_COUNTS = ("number", "step", "updates")


def _count(state: Mapping[str, Any], name: str) -> int:
    try:
        return at_least(0, state.get(name), f"the state's {name!r}")
    except SizeError as error:
        raise SettingError(str(error)) from None


def _part(state: Mapping[str, Any]) -> float:
    due = state.get("due")
    if not isinstance(due, (int, float)) or not 0 <= due < 1:
        raise SettingError(f"the state's 'due' is a number from 0 to below 1, got {due!r}")
    return float(due)


def _steps_of(epochs: int | None, epoch_steps: int, total_steps: int | None) -> dict[str, int]:
    """Return how many steps an epoch has, and all of them."""
    if (epochs is None) == (total_steps is None):
        raise SettingError("either epochs or total_steps is given, how many epochs or how many steps in all")
    each = at_least(1, epoch_steps, "epoch_steps")
    if epochs is not None:
        return {"epoch_steps": each, "total_steps": each * at_least(1, epochs, "epochs")}
    return {"epoch_steps": each, "total_steps": at_least(1, total_steps, "total_steps")}


def _rate(updates_per_step: Any) -> float:
    number = isinstance(updates_per_step, (int, float, np.integer, np.floating))
    if not number or not 0 <= updates_per_step < float("inf"):
        raise SettingError(f"updates_per_step is 0 or more, a number, got {updates_per_step!r}")
    return float(updates_per_step)


def on_policy(
    source: Source[R],
    update: Callable[[R], Losses | None],
    *,
    n_step: int,
    epoch_steps: int,
    epochs: int | None = None,
    total_steps: int | None = None,
    before: Callable[[int], object] | None = None,
    log: Writer | None = None,
    progress: bool = False,
) -> Training:
    """Collect, update on all of it, forget it.

    Steps are rows, of all environments together; those on which gymnasium resets an environment are none. Rollouts stay
    whole, so an epoch ends with the rollout that brings the sum to the next multiple of ``epoch_steps``, or to
    ``total_steps``: in all it is less than a rollout more than what was asked for, in however many epochs. There are
    fewer epochs if a rollout is longer than one.

    Args:
        source: a collector.
        update: takes a rollout, and gives numbers by name, as losses; or None, for an update that is not to count.
        n_step: steps of each rollout, of all environments together; rounded up to the same number for each.
        epoch_steps: steps of an epoch; what one has made too many, the next one makes fewer.
        epochs: how many epochs.
        total_steps: how many steps in all, instead of ``epochs``; the last epoch has what is left of them.
        before: called with the steps so far before each collection, to anneal something.
        log: what takes the metrics of each epoch, as TensorBoard's ``SummaryWriter``.
        progress: show a bar.

    Raises:
        SizeError: a number of steps or epochs below 1.
        SettingError: ``epochs`` and ``total_steps``, or neither.
    """

    def once(training: Training, _left: int) -> None:
        if before is not None:
            before(training.step)
        rollout = source.rollout(n_step)
        training.collected(source.last_stats)
        training.update(update, rollout)

    settings = {"training": "on_policy", "n_step": at_least(1, n_step, "n_step")}
    random = Random(source if isinstance(source, Collector) else None, None)
    steps = _steps_of(epochs, epoch_steps, total_steps)
    return Training(settings, once, **steps, parts=random, log=log, progress=progress)


def off_policy(
    collector: BufferSource[R],
    buffer: ReplayBuffer[R, S],
    update: Callable[[S, Slots], Losses | None],
    *,
    n_step: int,
    updates_per_step: float,
    batch_size: int,
    epoch_steps: int,
    epochs: int | None = None,
    total_steps: int | None = None,
    learning_starts: int = 0,
    warmup: int = 0,
    before: Callable[[int], object] | None = None,
    log: Writer | None = None,
    progress: bool = False,
) -> Training:
    """Collect into a buffer, then so many updates on samples of it.

    Steps are rows, of all environments together; those on which gymnasium resets an environment are none. An epoch ends
    when the sum is at the next multiple of ``epoch_steps``, or at ``total_steps``; its last collection is as short as
    that takes, rounded up to the same number for each environment. So in all at most ``num_envs - 1`` steps are made
    above what was asked for. ``warmup`` and ``learning_starts`` are among them: epochs within these have no updates,
    and no losses.

    Args:
        collector: what fills the buffer, a collector.
        buffer: with a ring for each environment.
        update: takes what was sampled, and its slots, and gives numbers by name, as losses; or None, for an update that
            is not to count.
        n_step: steps of each collection, of all environments together; rounded up to the same number for each.
        updates_per_step: updates for each step, 0.25 is one for every four.
        batch_size: transitions of a sample.
        epoch_steps: steps of an epoch; what one has made too many, the next one makes fewer.
        epochs: how many epochs.
        total_steps: how many steps in all, instead of ``epochs``; the last epoch has what is left of them.
        learning_starts: there is no update for the first so many steps.
        warmup: the first so many steps are random, and there is no update for them; only without ``record``. The
            policy acts in those from there to ``learning_starts``, if that is more.
        before: called with the steps so far before each collection, to anneal something.
        log: what takes the metrics of each epoch, as TensorBoard's ``SummaryWriter``.
        progress: show a bar.

    Raises:
        SizeError: a number of steps or epochs below 1, or of ``warmup`` or ``learning_starts`` below 0.
        SettingError: ``epochs`` and ``total_steps``, or neither; ``updates_per_step`` that is not a number, or below 0;
            no steps left to learn from; a buffer with another number of rings.
    """
    require_rings(buffer, collector.num_envs)
    rate = _rate(updates_per_step)
    settings = {
        "training": "off_policy",
        "n_step": at_least(1, n_step, "n_step"),
        "batch_size": at_least(1, batch_size, "batch_size"),
        "updates_per_step": updates_per_step,
    }
    steps = _steps_of(epochs, epoch_steps, total_steps)
    starts = max(at_least(0, learning_starts, "learning_starts"), at_least(0, warmup, "warmup"))
    if rate and starts >= steps["total_steps"]:
        raise SettingError(
            f"no step is left to learn from: of {steps['total_steps']} in all, warmup or learning_starts takes the "
            f"first {starts}; give more epochs, or more total_steps"
        )

    def once(training: Training, left: int) -> None:
        if before is not None:
            before(training.step)
        begun = training.step
        if begun < warmup:
            training.collected(collector.collect(buffer, min(warmup - begun, left), random=True))
            return
        training.collected(collector.collect(buffer, min(n_step, left)))
        whole, training.due = divmod(training.due + max(0, training.step - max(begun, starts)) * rate, 1)
        for _ in range(int(whole)):
            training.update(update, *buffer.sample(batch_size))

    random = Random(collector if isinstance(collector, Collector) else None, buffer)
    return Training(settings, once, **steps, parts=random, log=log, progress=progress)
