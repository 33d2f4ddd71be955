"""mypy in the background: what it finds in the files on disk, for as long as these are what the editor has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from typedbatch._lsp.process import TYPES, EndedError, Process, RefusedError

_PAUSE: Final = 0.5
"""Seconds before a check, for the next file that is opened or saved."""
_LIMIT: Final = 1800.0
"""Seconds for a check; the first one of a project reads all of torch."""
Found = list[dict[str, Any]]


class Background:
    """Checks of types, one at a time.

    Args:
        root: Folder of the project.
        python: Python whose packages the code imports; None for that of the project.
        cache: Folder of the cache; None for one in the root.
        found: Called when a check has ended.
        log: Called with a line for the log.

    Attributes:
        found_in: What was found in files that have not changed since.
    """

    def __init__(
        self,
        root: Path,
        python: str | None,
        cache: str | None,
        found: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self.found_in: dict[str, Found] = {}
        self._given = {"root": str(root), "python": python, "cache": cache}
        self._root = root
        self._found = found
        self._log = log
        self._changed: set[str] = set()
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_asked = False

    def changed(self, path: str) -> None:
        """Forget what was found in a file, which has another text now."""
        self._changed.add(path)
        self.found_in.pop(path, None)

    def check(self, texts: Mapping[str, str]) -> None:
        """Check the files on disk, or once more after the check that is running.

        Args:
            texts: Texts of files in the editor.
        """
        self._is_asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_all(texts))

    async def _check_all(self, texts: Mapping[str, str]) -> None:
        while self._is_asked:
            await asyncio.sleep(_PAUSE)
            self._is_asked = False
            self._changed = {path for path, text in texts.items() if text != self._on_disk(path)}
            try:
                self._process = await Process.start(TYPES, self._log)
                found = await self._process.request("check", _LIMIT, **self._given)
            except (RefusedError, EndedError) as error:
                self._log(f"types are not checked: {error}")
                found = {}
            await self._stop()
            self.found_in = {path: one for path, one in found.items() if path not in self._changed}
            self._found()

    def _on_disk(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def end(self) -> None:
        """End the check that is running."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._stop()
