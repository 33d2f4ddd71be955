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
from typedbatch.errors import LeafError, SettingError
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

    stats: CollectStats

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
    """Environment steps so far, of all epochs."""
    updates: int
    """Calls of ``update`` so far, of all epochs."""
    collected: CollectStats
    """Steps and episodes of this epoch."""
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
        collect_and_update: does so once.
        epochs: how many epochs.
        epoch_steps: environment steps of each, at least.
        parts: what has random numbers that belong to the training: a collector, a buffer.
        log: what takes :meth:`Epoch.metrics` after each epoch.
        progress: whether a bar shows how far it is. Needs the extra ``cli``.
    """

    def __init__(
        self,
        kind: dict[str, Any],
        collect_and_update: Callable[[Training], None],
        *,
        epochs: int,
        epoch_steps: int,
        parts: Random,
        log: Writer | None,
        progress: bool,
    ) -> None:
        self._kind = kind
        self._collect_and_update = collect_and_update
        self.epochs: int = at_least(1, epochs, "epochs")
        self._epoch_steps = at_least(1, epoch_steps, "epoch_steps")
        self._random = parts
        self._log = log
        self._bar = Bar(self.epochs * self._epoch_steps) if progress else None
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
        if self.number >= self.epochs:
            if self._bar is not None:
                self._bar.close()
            raise StopIteration
        self._clear()
        before = self.step
        while self.step - before < self._epoch_steps:
            self._collect_and_update(self)
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

    def update(self, update: Callable[..., Losses], *args: Any) -> None:
        """Call an update, and count it in.

        Raises:
            LeafError: it gives something else than numbers by name.
        """
        begun = time.perf_counter()
        losses: Any = update(*args)
        self._seconds += time.perf_counter() - begun
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
        counts = {"number": self.number, "step": self.step, "updates": self.updates, "due": self.due}
        return {"kind": self._kind, **counts, "random": self._random.state(self.step)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another training was when its :meth:`state_dict` was asked.

        Raises:
            SettingError: it is that of something else, or of a training with other settings.
        """
        kind = state_dict.get("kind")
        if kind != self._kind:
            raise SettingError(f"a state of {self._kind} is expected, got one of {kind}")
        try:
            counts = {
                name: type(getattr(self, name))(state_dict[name]) for name in ("number", "step", "updates", "due")
            }
            self._random.load(state_dict["random"])
        except (KeyError, TypeError, ValueError) as error:
            raise SettingError(f"this is not what state_dict() gave: {type(error).__name__}: {error}") from error
        vars(self).update(counts)


def on_policy(
    source: Source[R],
    update: Callable[[R], Losses],
    *,
    n_step: int,
    epoch_steps: int,
    epochs: int,
    before: Callable[[int], object] | None = None,
    log: Writer | None = None,
    progress: bool = False,
) -> Training:
    """Collect, update on all of it, forget it.

    Args:
        source: a collector.
        update: takes a rollout, and gives numbers by name, as losses.
        n_step: steps of each rollout, of all environments together.
        epoch_steps: steps of an epoch, at least.
        epochs: how many epochs.
        before: called with the steps so far before each collection, to anneal something.
        log: what takes the metrics of each epoch, as TensorBoard's ``SummaryWriter``.
        progress: show a bar.

    Raises:
        SizeError: a number of steps or epochs below 1.
    """

    def once(training: Training) -> None:
        if before is not None:
            before(training.step)
        rollout = source.rollout(n_step)
        training.collected(source.stats)
        training.update(update, rollout)

    settings = {"training": "on_policy", "n_step": at_least(1, n_step, "n_step")}
    random = Random(source if isinstance(source, Collector) else None, None)
    return Training(settings, once, epochs=epochs, epoch_steps=epoch_steps, parts=random, log=log, progress=progress)


def off_policy(
    collector: BufferSource[R],
    buffer: ReplayBuffer[R, S],
    update: Callable[[S, Slots], Losses],
    *,
    n_step: int,
    updates_per_step: float,
    batch_size: int,
    epoch_steps: int,
    epochs: int,
    warmup: int = 0,
    before: Callable[[int], object] | None = None,
    log: Writer | None = None,
    progress: bool = False,
) -> Training:
    """Collect into a buffer, then so many updates on samples of it.

    Args:
        collector: what fills the buffer, a collector.
        buffer: with a ring for each environment.
        update: takes what was sampled, and its slots, and gives numbers by name, as losses.
        n_step: steps of each collection, of all environments together.
        updates_per_step: updates for each step, 0.25 is one for every four.
        batch_size: transitions of a sample.
        epoch_steps: steps of an epoch, at least.
        epochs: how many epochs.
        warmup: the first so many steps are random, and there is no update after them; only without ``record``.
        before: called with the steps so far before each collection, to anneal something.
        log: what takes the metrics of each epoch, as TensorBoard's ``SummaryWriter``.
        progress: show a bar.

    Raises:
        SizeError: a number of steps or epochs below 1.
    """
    require_rings(buffer, collector.num_envs)
    settings = {
        "training": "off_policy",
        "n_step": at_least(1, n_step, "n_step"),
        "batch_size": at_least(1, batch_size, "batch_size"),
        "updates_per_step": updates_per_step,
    }
    if not updates_per_step >= 0:
        raise SettingError(f"updates_per_step is 0 or more, got {updates_per_step!r}")

    def once(training: Training) -> None:
        if before is not None:
            before(training.step)
        if training.step < warmup:
            training.collected(collector.collect(buffer, warmup - training.step, random=True))
            return
        stats = collector.collect(buffer, n_step)
        training.collected(stats)
        whole, training.due = divmod(training.due + stats.steps * updates_per_step, 1)
        for _ in range(int(whole)):
            training.update(update, *buffer.sample(batch_size))

    random = Random(collector if isinstance(collector, Collector) else None, buffer)
    return Training(settings, once, epochs=epochs, epoch_steps=epoch_steps, parts=random, log=log, progress=progress)
