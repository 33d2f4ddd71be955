"""The progress bar of a training."""

from __future__ import annotations

from typing import Any

from typedbatch.errors import MissingDependencyError


class Bar:
    """A progress bar of rich in the terminal. It stops when the object is deleted.

    Args:
        steps: Total number of environment steps.

    Raises:
        MissingDependencyError: rich is not installed.
    """

    def __init__(self, steps: int) -> None:
        try:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError as error:
            raise MissingDependencyError("a progress bar needs rich; pip install 'typedbatch[cli]'") from error
        self._progress: Any = Progress(
            TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), auto_refresh=False
        )
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
