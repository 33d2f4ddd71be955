"""Training as an iterator of epochs: the ``for`` loop around it is the trainer."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from typedbatch._core.kinds import describe
from typedbatch._core.lengths import require_at_least
from typedbatch.buffers import ReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import LeafError, MissingDependencyError, SettingError, SizeError
from typedbatch.protocols import BatchProtocol
from typedbatch.training.add_rollout import require_rings
from typedbatch.training.collector import Collector, require_seed
from typedbatch.training.stats import CollectStats

if TYPE_CHECKING:
    from typedbatch.audit import Audit

R = TypeVar("R", bound=BatchProtocol)
S = TypeVar("S", bound=BatchProtocol)
R_co = TypeVar("R_co", bound=BatchProtocol, covariant=True)

Slots: TypeAlias = NDArray[np.intp]
Losses: TypeAlias = Mapping[str, float]
"""Metrics returned by an update: numbers by name."""
_COUNTS = ("number", "step", "updates")


class Source(Protocol[R_co]):
    """A source of rollouts: a :class:`Collector`, or several in other processes."""

    @property
    def last_stats(self) -> CollectStats:
        """Statistics of the last call."""
        ...

    def rollout(self, n_step: int) -> R_co:
        """Collect ``n_step`` steps."""
        ...


class BufferSource(Protocol[R_co]):
    """A source of rows for a buffer: a :class:`Collector`, or several in other processes."""

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        ...

    def collect(self, into: ReplayBuffer[R_co, Any], n_step: int, *, random: bool = ...) -> CollectStats:
        """Add ``n_step`` steps to a buffer."""
        ...


@dataclass(frozen=True)
class Epoch:
    """The results of an epoch."""

    number: int
    """Number of the epoch, from 1."""
    step: int
    """Environment steps so far in all epochs and environments, which is the number of rows."""
    updates: int
    """Calls of ``update`` so far in all epochs, without those that returned None."""
    collected: CollectStats
    """Steps and episodes of this epoch in all its collections, as in ``epoch.collected.returns``."""
    losses: dict[str, float]
    """Means of the metrics over the updates of this epoch."""
    seconds: dict[str, float]
    """Seconds spent in ``"collect"`` and in ``"update"``."""

    def metrics(self) -> dict[str, float]:
        """Return all results as numbers by name: ``"collect/return"``, ``"loss/td"``, ``"seconds/update"``."""
        out = {f"loss/{name}": value for name, value in self.losses.items()}
        out |= {f"seconds/{name}": value for name, value in self.seconds.items()}
        out |= {"collect/steps": float(self.collected.steps), "collect/episodes": float(self.collected.episodes)}
        if self.collected.episodes:
            out |= {"collect/return": self.collected.mean, "collect/length": float(self.collected.lengths.mean())}
        return out


class Writer(Protocol):
    """A logger of numbers by name, such as TensorBoard's ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> object:
        """Log a number."""
        ...


class Training(Iterator[Epoch]):
    """An iterator of epochs. The body of the loop may do anything between them: test, log, save, anneal, stop.

    It is created by :func:`on_policy` and :func:`off_policy`.

    Args:
        kind: Settings of the training. States of a training with other settings are refused.
        collect_and_update: Function that collects and updates once. It is called with this object and the number of
            steps left in the epoch.
        epoch_steps: Number of environment steps of an epoch.
        total_steps: Number of environment steps of all epochs. The last epoch may have fewer than the others.
        parts: Random states that belong to the training.
        log: Logger that gets :meth:`Epoch.metrics` after each epoch, or None.
        progress: Whether to show a progress bar, which needs the extra ``cli``.
        audit: Audit of the first updates, or None.
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
        audit: Audit | None = None,
    ) -> None:
        self._audit = audit
        self._kind = kind
        self._collect_and_update = collect_and_update
        self.total_steps: int = total_steps
        """Requested number of environment steps."""
        self.epochs: int = -(-total_steps // epoch_steps)
        """Number of epochs. There are fewer if a rollout is longer than an epoch."""
        self._epoch_steps = epoch_steps
        self._random = parts
        self._log = log
        self._bar = Bar(total_steps) if progress else None
        self.number: int = 0
        """Number of epochs so far."""
        self.step: int = 0
        """Number of environment steps so far."""
        self.updates: int = 0
        """Number of calls of ``update`` so far, without those that returned None."""
        self.due: float = 0.0
        """Fraction of an update that is still due for the steps so far, below 1."""
        self._clear()

    def _clear(self) -> None:
        self._collected: list[CollectStats] = []
        self._losses: dict[str, list[float]] = defaultdict(list)
        self._seconds = 0.0

    def __next__(self) -> Epoch:
        """Run the next epoch and return it.

        Raises:
            StopIteration: all steps have been made.
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
        collected = CollectStats.sum(self._collected)
        losses = {name: float(np.mean(values)) for name, values in self._losses.items()}
        seconds = {"collect": collected.seconds, "update": self._seconds}
        epoch = Epoch(self.number, self.step, self.updates, collected, losses, seconds)
        if self._log is not None:
            for name, value in epoch.metrics().items():
                self._log.add_scalar(name, value, epoch.step)
        return epoch

    def collected(self, stats: CollectStats) -> None:
        """Add the statistics of a collection to the epoch."""
        self.step += stats.steps
        self._collected.append(stats)

    def update(self, update: Callable[..., Losses | None], *args: Any) -> None:
        """Call an update and add its metrics to the epoch. If it returns None, it does not count.

        Raises:
            LeafError: the update does not return a mapping of numbers by name, or None.
        """
        begun = time.perf_counter()
        audit = self._audit
        losses: Any = update(*args) if audit is None or audit.is_done else audit.call(update, *args)
        self._seconds += time.perf_counter() - begun
        if losses is None:
            return
        self.updates += 1
        if type(losses) is not dict and not isinstance(losses, Mapping):  # the latter takes long, and a dict is usual
            raise LeafError(f"update() must return a dict of numbers, as {{'loss': 0.5}}, got {describe(losses)}")
        for name, value in losses.items():
            try:
                self._losses[name].append(float(value))
            except (TypeError, ValueError, RuntimeError):
                raise LeafError(f"update() must return numbers, got {describe(value)}", str(name)) from None

    # ---- resuming -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the progress of the training as numbers, text and tensors, ready for ``torch.save``.

        The policy, the optimizer and the buffer must be saved separately. Environments cannot be saved. All of them are
        therefore reset by this call, with a seed that is part of the state, so that this training and a resumed one do
        the same from here. The random states of torch and of the buffer are included.
        """
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {"kind": self._kind, **counts, "due": self.due, "random": self._random.state(self.step)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from the state that another training returned from :meth:`state_dict`.

        Raises:
            SettingError: ``state_dict`` is not a state, or is one of a training with other settings. Nothing was
                changed.
            EnvironmentFailedError: the environments, which are reset, have failed. Nothing else was changed.
        """
        if not isinstance(state_dict, Mapping):
            raise SettingError(f"expected a dict from state_dict(), got {describe(state_dict)}")
        kind = state_dict.get("kind")
        if kind != self._kind:
            raise SettingError(f"expected a state of {self._kind}, got one of {kind}")
        try:
            counts = {name: require_at_least(0, state_dict.get(name), f"the state's {name!r}") for name in _COUNTS}
        except SizeError as error:
            raise SettingError(str(error)) from None
        due = state_dict.get("due")
        if not isinstance(due, (int, float)) or not 0 <= due < 1:
            raise SettingError(f"the state's 'due' must be a number >= 0 and < 1, got {due!r}")
        self._random.load(state_dict.get("random"))
        vars(self).update(counts, due=float(due))


def _steps_of(epochs: int | None, epoch_steps: int, total_steps: int | None) -> dict[str, int]:
    """Return the steps of an epoch and the total, as arguments of :class:`Training`."""
    if (epochs is None) == (total_steps is None):
        raise SettingError("pass either epochs or total_steps: the number of epochs or of steps in all")
    each = require_at_least(1, epoch_steps, "epoch_steps")
    if epochs is not None:
        total_steps = each * require_at_least(1, epochs, "epochs")
    return {"epoch_steps": each, "total_steps": require_at_least(1, total_steps, "total_steps")}


def _audit_of(audit: int | Audit, **settings: Any) -> Audit | None:
    """Return an audit of the first updates, or None for 0."""
    if isinstance(audit, (int, np.integer)):
        if not require_at_least(0, audit, "audit"):
            return None
        from typedbatch.audit import Audit as New

        return New(updates=int(audit), **settings)
    if not hasattr(audit, "is_done"):
        raise LeafError(f"audit takes a number of updates or an Audit, got {describe(audit)}")
    return audit


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
    audit: int | Audit = 0,
) -> Training:
    """Return a training that repeatedly collects a rollout, updates on all of it and discards it.

    Steps are rows, counted over all environments. Steps on which gymnasium resets an environment do not count. Rollouts
    are never divided, so an epoch ends with the rollout that reaches the next multiple of ``epoch_steps``, or
    ``total_steps``. The total exceeds the requested one by less than a rollout, whatever the number of epochs. There
    are fewer epochs if a rollout is longer than an epoch.

    Args:
        source: Source of rollouts, usually a collector.
        update: Function that takes a rollout and returns metrics by name, such as losses; None if the update is not to
            be counted.
        n_step: Number of steps of a rollout in all environments together, rounded up to the same number for each.
        epoch_steps: Number of steps of an epoch. If an epoch has more, the next one has fewer.
        epochs: Number of epochs.
        total_steps: Total number of steps, instead of ``epochs``. The last epoch has the remaining steps.
        before: Function that is called with the number of steps so far before each collection, for annealing.
        log: Logger of the metrics of each epoch, such as TensorBoard's ``SummaryWriter``.
        progress: Whether to show a progress bar.
        audit: Number of first updates that are audited, with a warning for findings, or an audit with settings of its
            own; see :mod:`typedbatch.audit`.

    Raises:
        SizeError: a number of steps or epochs is below 1.
        SettingError: both or neither of ``epochs`` and ``total_steps`` are given.
    """

    def once(training: Training, _left: int) -> None:
        if before is not None:
            before(training.step)
        rollout = source.rollout(n_step)
        training.collected(source.last_stats)
        training.update(update, rollout)

    settings = {"training": "on_policy", "n_step": require_at_least(1, n_step, "n_step")}
    parts, steps = Random(source, None), _steps_of(epochs, epoch_steps, total_steps)
    return Training(
        settings, once, **steps, parts=parts, log=log, progress=progress, audit=_audit_of(audit, on_policy=True)
    )


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
    audit: int | Audit = 0,
) -> Training:
    """Return a training that repeatedly collects steps into a buffer and updates on samples from it.

    Steps are rows, counted over all environments. Steps on which gymnasium resets an environment do not count. An epoch
    ends at the next multiple of ``epoch_steps``, or at ``total_steps``. Its last collection is shortened accordingly,
    rounded up to the same number for each environment, so that the total exceeds the requested one by at most
    ``num_envs - 1``. The steps of ``warmup`` and ``learning_starts`` are included in the total. Epochs within them have
    no updates and no losses.

    Args:
        collector: Source of rows for the buffer, usually a collector.
        buffer: Buffer with a ring for each environment.
        update: Function that takes a sample and its slots, and returns metrics by name, such as losses; None if the
            update is not to be counted.
        n_step: Number of steps of a collection in all environments together, rounded up to the same number for each.
        updates_per_step: Number of updates for each step; 0.25 means an update for every four steps.
        batch_size: Number of transitions in a sample.
        epoch_steps: Number of steps of an epoch. If an epoch has more, the next one has fewer.
        epochs: Number of epochs.
        total_steps: Total number of steps, instead of ``epochs``. The last epoch has the remaining steps.
        learning_starts: Number of steps at the beginning without updates.
        warmup: Number of steps at the beginning with random actions and without updates; only without ``record``. If
            ``learning_starts`` is larger, the policy acts in the steps between.
        before: Function that is called with the number of steps so far before each collection, for annealing.
        log: Logger of the metrics of each epoch, such as TensorBoard's ``SummaryWriter``.
        progress: Whether to show a progress bar.
        audit: Number of first updates that are audited, with a warning for findings, or an audit with settings of its
            own; see :mod:`typedbatch.audit`.

    Raises:
        SizeError: a number of steps or epochs is below 1, or ``warmup`` or ``learning_starts`` is below 0.
        SettingError: both or neither of ``epochs`` and ``total_steps`` are given, ``updates_per_step`` is not a number
            >= 0, no steps are left to learn from, or the buffer has another number of rings.
    """
    require_rings(buffer, collector.num_envs)
    given: Any = updates_per_step
    if not isinstance(given, (int, float, np.integer, np.floating)) or not 0 <= given < float("inf"):
        raise SettingError(f"updates_per_step must be a number >= 0, got {given!r}")
    rate = float(given)
    settings = {
        "training": "off_policy",
        "n_step": require_at_least(1, n_step, "n_step"),
        "batch_size": require_at_least(1, batch_size, "batch_size"),
        "updates_per_step": updates_per_step,
    }
    steps = _steps_of(epochs, epoch_steps, total_steps)
    starts = max(require_at_least(0, learning_starts, "learning_starts"), require_at_least(0, warmup, "warmup"))
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
        count, training.due = divmod(training.due + max(0, training.step - max(begun, starts)) * rate, 1)
        for _ in range(int(count)):
            training.update(update, *buffer.sample(batch_size))

    auditing = _audit_of(audit, skip=("wrong-ratio",))  # The rows of a buffer are of older policies.
    parts = Random(collector, buffer)
    return Training(settings, once, **steps, parts=parts, log=log, progress=progress, audit=auditing)


class Random:
    """The random states of a collector's environments, of a buffer and of torch."""

    def __init__(self, source: Any, buffer: Any) -> None:
        self._collector: Collector[Any] | None = source if isinstance(source, Collector) else None
        self._buffer = buffer

    def state(self, step: int) -> dict[str, Any]:
        """Return the random states. The environments are reset, with a seed derived from the last one and the step."""
        out: dict[str, Any] = {}
        if self._collector is not None:
            before = self._collector.seed or 0
            out["seed"] = int(np.random.default_rng([before, step]).integers(2**31))
            self._collector.reset(out["seed"])
        if self._buffer is not None:
            out["buffer"] = state_of(self._buffer).rng.bit_generator.state
        if (torch := sys.modules.get("torch")) is not None:
            out["torch"] = torch.get_rng_state()
        return out

    def load(self, state: Any) -> None:
        """Restore the random states that :meth:`state` returned, and reset the environments with the seed among them.

        The states are tried on spare generators first, so a SettingError for a damaged one leaves everything as it was.
        """
        if not isinstance(state, Mapping):
            raise SettingError(f"the state's 'random' must be a dict, got {describe(state)}")
        torch: Any = sys.modules.get("torch") if "torch" in state else None
        if self._collector is not None:
            require_seed(state.get("seed", ""))
        own: Any = None if self._buffer is None else state_of(self._buffer).rng.bit_generator
        trials: dict[str, Callable[[], object]] = {}  # on spare generators
        if own is not None:
            trials["buffer"] = lambda: setattr(type(own)(), "state", state["buffer"])
        if torch is not None:
            trials["torch"] = lambda: torch.Generator().set_state(state["torch"])
        for name, load in trials.items():
            try:
                load()
            except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
                raise SettingError(
                    f"the random state of {name!r} is not one that state_dict() returned: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if self._collector is not None:
            self._collector.reset(state["seed"])
        if own is not None:
            own.state = state["buffer"]
        if torch is not None:
            torch.set_rng_state(state["torch"])


class Bar:
    """A progress bar of rich in the terminal. It stops when the object is deleted."""

    def __init__(self, steps: int) -> None:
        try:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError as error:
            raise MissingDependencyError("a progress bar needs rich; pip install 'typedbatch[cli]'") from error
        columns = TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._progress: Any = Progress(*columns, auto_refresh=False)
        self._task = self._progress.add_task("steps", total=steps)

    def show(self, step: int) -> None:
        """Show that ``step`` steps are done."""
        self._progress.start()
        self._progress.update(self._task, completed=step)
        self._progress.refresh()

    def close(self) -> None:
        """Stop updating the bar, which remains visible as it is."""
        self._progress.stop()

    def __del__(self) -> None:
        if hasattr(self, "_progress"):
            self.close()
