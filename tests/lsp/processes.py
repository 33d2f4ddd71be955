"""Processes of a server, of which Linux tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.lsp.client import PATIENCE


def children_of(server: int) -> list[int]:
    """Return the processes that a server has started."""
    return [int(child) for child in Path(f"/proc/{server}/task/{server}/children").read_text("utf-8").split()]


def group_of(worker: int) -> list[int]:
    """Return the processes in the group of a worker that are running."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = path.read_text("utf-8").rpartition(")")[2].split()[:3]
            found += [int(path.parent.name)] if int(group) == worker and state != "Z" else []
    return found


def wait(until: Callable[[], bool]) -> None:
    """Wait for other processes."""
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)
