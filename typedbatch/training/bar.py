"""A bar that shows how far a training is."""

from __future__ import annotations

from typing import Any

from typedbatch.errors import MissingDependencyError


class Bar:
    """A bar in the terminal, of rich's; it goes when nobody holds it any more.

    Args:
        steps: environment steps in all.

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
        """Show that so many steps are done."""
        self._progress.start()
        self._progress.update(self._task, completed=step)
        self._progress.refresh()

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()

    def __del__(self) -> None:
        if hasattr(self, "_progress"):
            self.close()
