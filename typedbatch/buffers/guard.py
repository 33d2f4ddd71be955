"""The guard of a buffer: its lock, rollback of changes that are interrupted, and reading while another process writes.

Each buffer has one lock, and every call holds it. A call that changes the buffer registers a rollback first, which runs
if an exception, such as ``KeyboardInterrupt``, ends the call. If the rollback is interrupted as well, the next call
begins with it.

A folder is read without a lock while another process writes to it, and the writer never waits for readers. Before it
overwrites rows, it raises the step number of the folder by the number of rows (see ``storage``). A reader compares the
step number before and after it has read. The result is valid if all its rows were further from being overwritten than
the number has grown; otherwise it is discarded. While the number is odd, the slots after the newest row are being
overwritten already.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import numpy as np

from typedbatch.buffers.arguments import as_slots
from typedbatch.buffers.folder import folders
from typedbatch.buffers.rings import Rings
from typedbatch.buffers.storage import Disk
from typedbatch.errors import StorageError, StructureError

if TYPE_CHECKING:
    from typedbatch.buffers.state import State

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

_TRIES = 40
_ALL = slice(None)


class Guard:
    """The lock of a buffer and of its rings, and the rollbacks of changes in progress."""

    __slots__ = ("__weakref__", "abandoned", "durable", "lock", "mark", "reader", "rolling_back", "unfinished")

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.unfinished: list[Callable[[], None]] = []
        """Rollback callbacks of the changes in progress, outermost first."""
        self.abandoned: bool = False
        """Whether an exception has ended those changes, so that they have to be rolled back."""
        self.rolling_back: bool = False
        """Whether a rollback is running."""
        self.reader: Reader | Still | None = None
        """Reader of the folder, if this buffer is open for reading."""
        self.durable: bool = False
        """Whether the rows of the buffer are on disk."""
        self.mark: object = None
        """Mark of the collector that has added the last rows; see ``typedbatch.training.add_rollout``."""
        _guards.add(self)

    def rollback_unfinished(self) -> None:
        """Roll back the changes that were interrupted. Called when :attr:`unfinished` is not empty.

        A signal handler that has called the buffer during a change gets a ``StructureError``.
        """
        if not self.abandoned:
            raise StructureError(
                "this buffer cannot be used in a signal handler that runs in the middle of a change to it; "
                "let the handler set a flag, and check the flag after the call"
            )
        if self.rolling_back:  # a rollback may call the buffer and begin changes of its own
            return
        try:
            self.rolling_back = True
            while self.unfinished:
                self.unfinished[-1]()
                self.unfinished.pop()
            self.abandoned = False
        finally:
            self.rolling_back = False

    def refuse(self, reason: str) -> None:
        """Raise an error in every call from now on."""

        def fail() -> None:
            raise StorageError(reason)

        self.unfinished.append(fail)
        self.abandoned = True


def call_locked(state: State, call: Callable[[], T], index: Any = _ALL) -> T:
    """Return the result of a function that reads some rows of a buffer, called while holding the buffer's lock."""
    guard = state.guard
    with guard.lock:
        if guard.unfinished:
            guard.rollback_unfinished()
        if guard.reader is not None:
            return guard.reader.read(call, state, index)
        return call()


def prepare_change(guard: Guard, name: str) -> None:
    """Finish the rollback of interrupted changes. The caller, which changes the buffer, holds its lock."""
    if guard.unfinished:
        guard.rollback_unfinished()
    if guard.reader is not None:
        raise StorageError(f"{name}() changes the buffer, and this one is open for reading, with mode='r'")


def locked(method: M, *, at: bool = False) -> M:
    """Run a method that reads all rows, or with ``at`` those its first argument names, while holding the lock."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            if guard.unfinished:
                guard.rollback_unfinished()
            if guard.reader is not None:
                index = next(iter((*args, *kwargs.values())), None) if at else _ALL
                return guard.reader.read(partial(method, self, *args, **kwargs), self._state, index)
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]  # it has the signature of the method


def locked_at(method: M) -> M:
    """Run the method while holding the buffer's lock; its first argument is an index of the rows that it reads."""
    return locked(method, at=True)


def locked_for_writing(method: M) -> M:
    """Run a method that changes the buffer while holding its lock; raise an error if it is open for reading."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = self._state.guard
        with guard.lock:
            prepare_change(guard, method.__name__)
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]  # it has the signature of the method


_guards: WeakSet[Guard] = WeakSet()


def _in_a_forked_process() -> None:
    """Replace the locks in the child, as the threads that held them, and would finish their changes, do not exist.

    Lock files are closed, as a folder is locked while any process has its file open.
    """
    for folder in list(folders):
        folder.close()
    for guard in list(_guards):
        guard.lock = RLock()
        guard.abandoned = True
        if guard.durable:
            guard.refuse(
                "this buffer belongs to the process that created or opened it, which continues to write to its folder; "
                "open(path, mode='r') reads it here"
            )


def allow_reading() -> None:
    """Let buffers on disk be read in a forked process, which ends before the parent writes to their folders again."""
    for guard in list(_guards):
        if guard.durable and len(guard.unfinished) == 1:  # Nothing but the refusal; a change may have been interrupted.
            guard.unfinished.clear()
            guard.abandoned = False
            guard.reader = guard.reader or Still()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_forked_process)


class Still:
    """A reader of a folder to which nobody writes meanwhile."""

    frames = 1

    def read(self, call: Callable[[], T], state: State, index: Any = _ALL) -> T:
        """Return the result of a function that reads the buffer."""
        return call()


class Reader:
    """Synchronization of a buffer that is open for reading with its folder."""

    def __init__(self, state: State, disk: Disk) -> None:
        self.frames: int = 1
        """Number of frames that the current call reads for each row that it names, including the row itself."""
        self._state = state
        self._disk = disk
        self._step = math.nan
        self._margin = 0
        self._spare: Any = 0
        """Number of rows of each ring that may be overwritten before any row that counts here is."""
        self._inside = False

    def read(self, call: Callable[[], T], state: State, index: Any = _ALL) -> T:
        """Return the result of a function that reads the buffer, or a ring of it, as it was at one moment.

        A slice means the current rows. Slots mean the rows that they held when the positions were last read.
        """
        if self._inside:
            return call()
        try:
            self._inside, self.frames = True, 1
            if isinstance(index, slice) or index is Ellipsis or math.isnan(self._step):
                return self._latest(call)
            out = call()
            self._require_stored(state, index)
            return out
        finally:
            self._inside = False

    def _latest(self, call: Callable[[], T]) -> T:
        """Return the result of a function on the current rows of the folder."""
        margin = 0
        for _ in range(_TRIES):
            try:
                self._refresh(margin)
                out = call()
            except Exception:
                if not self._disk.overwritten(self._step) and not margin:
                    raise
            else:
                if (self._begun() <= self._spare).all():
                    return out
            if math.isfinite(gone := self._disk.overwritten(self._step)):
                half = int(self._state.rings.capacity.max()) // 2
                margin = min(max(2 * margin, 2 * math.ceil(gone)), half)
        text = f"{self._disk.folder.path} is overwritten faster than it can be read; read fewer rows at once"
        raise StorageError(text)

    def _refresh(self, margin: int) -> None:
        """Read the positions of the folder, and leave out the rows that the next ``margin`` rows will overwrite."""
        state = self._state
        if math.isinf(self._disk.overwritten(0)):
            self._step = math.nan
            state.columns = self._disk.read().columns
        step, numbers = self._disk.positions()
        if (step, margin) == (self._step, self._margin):
            return
        if not step - self._step < 2 * state.rings.capacity.min():  # every row may have been overwritten
            state.rings.turns += 2
        self._step, self._margin = step, margin
        self._disk.read_extras()
        state.restore(numbers)
        free = self._free(state.rings)
        state.rings.drop_oldest(_ALL, margin)
        self._spare = state.rings.capacity - state.rings.length - free
        state.share_columns()
        state.on_rows_dropped()

    def _free(self, rings: Rings) -> Any:
        """Return how many free slots of each ring may be in the middle of being written at the current step."""
        return (rings.capacity - rings.length) * (self._step % 2)

    def _begun(self) -> Any:
        """Return how many rows of a ring may have been overwritten, at least in part, since the current step.

        Rows that were being written at that step do not count; ``_free`` has them.
        """
        gone = self._disk.overwritten(self._step)
        return np.floor(gone) if self._step % 2 else np.ceil(gone)

    def _require_stored(self, state: State, index: Any) -> None:
        """Raise an error if rows of ``index``, or their frames, may have been overwritten since the current step."""
        if not (gone := self._begun()):
            return
        rings = state.rings
        slots = np.atleast_1d(as_slots(rings, index))
        ring = rings.ring_of(slots)
        # Number of rows that are written before each slot is overwritten.
        ahead = (slots - rings.offset[ring] - rings.insertion[ring]) % rings.capacity[ring] - self._free(rings)[ring]
        if slots.size and gone > ahead.min() - (self.frames - 1):
            text = f"rows of {self._disk.folder.path} were overwritten since these slots were sampled; sample again"
            raise StorageError(text)
