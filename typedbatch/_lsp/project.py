"""A project that is edited: what has changed since the last check, and the worker that checks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typedbatch._lsp.background import Background
from typedbatch._lsp.editor import Editor
from typedbatch._lsp.process import WORKER, EndedError, Process, RefusedError


@dataclass(frozen=True)
class Pauses:
    """Seconds that the server waits.

    Attributes:
        edit: After an edit, for the next one.
        answer: For an answer of the worker.
    """

    edit: float = 0.15
    answer: float = 60.0


_MOST_FAILURES: Final = 3


class Project:
    """A project.

    Args:
        root: Its folder.
        editor: The editor.
        options: What the editor has set: ``python``, ``cache``, and ``types``, which is False if mypy never runs.
        pauses: Times to wait.
    """

    def __init__(
        self, root: Path, editor: Editor, options: Mapping[str, Any] | None = None, pauses: Pauses | None = None
    ) -> None:
        options = options or {}
        python, cache = options.get("python"), options.get("cache")
        self.root = root
        self._editor = editor
        self._pauses = pauses or Pauses()
        self._types = Background(root, python, cache, self._show_all, editor.log)
        self._wants_types = options.get("types") is not False
        self._open: dict[str, str] = {}
        self._changed: dict[str, str | None] = {}
        self._found: dict[str, list[dict[str, Any]]] = {}
        self._shown: set[str] = set()
        self._process: Process | None = None
        self._is_loading = False
        self._is_outdated = True
        self._has_ended = False
        self._failures = 0
        self._has_said = False
        self._timer: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    # ---- edits ----------------------------------------------------------------------------------------------------

    def edit(self, path: str, text: str, *, at_once: bool = False) -> None:
        """Take the text of a file that is open, and check it after a pause, or at once."""
        if self._open.get(path, text) != text:
            self._types.changed(path)
        is_new = path not in self._open
        self._open[path] = self._changed[path] = text
        self._later(0.0 if at_once else self._pauses.edit)
        if is_new:
            self._check_types()

    def save(self, path: str) -> None:
        """Check what has changed at once; of a file that is not open, the text on disk."""
        if path not in self._open:
            self._changed[path] = None
            self._types.changed(path)
        self._later(0.0)
        self._check_types()

    def close(self, path: str) -> None:
        """Go back to the text on disk."""
        if self._open.pop(path, None) is not None:
            self._changed[path] = None
            self._later(self._pauses.edit)

    def load_again(self) -> None:
        """Load the project again, as its settings have changed."""
        self._is_outdated = True
        self._later(0.0)
        self._check_types()

    def _check_types(self) -> None:
        if self._wants_types and not self._has_ended:
            self._types.check(self._open)

    def _later(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.create_task(self._after(pause))

    async def _after(self, pause: float) -> None:
        await asyncio.sleep(pause)
        self._timer = None  # From here on, another edit does not cancel the check.
        await self.check()

    # ---- checks ---------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Check what has changed, once the worker is there."""
        async with self._busy:
            while (self._changed or self._is_outdated) and not self._has_ended:
                changed, self._changed = self._changed, {}
                try:
                    await self._check(changed)
                except (EndedError, RefusedError) as error:
                    self._changed = {**changed, **self._changed}
                    if not await self._failed(str(error)):
                        return
        self._editor.checked()

    async def _check(self, changed: dict[str, str | None]) -> None:
        if self._process is None or self._is_outdated:
            done = await self._start()
        else:
            done = await self._process.request("update", self._pauses.answer, texts=changed)
        self._failures = 0
        for note in done["notes"]:
            self._editor.log(note)
        self._found = done["found"]
        self._show_all()

    def _show_all(self) -> None:
        """Show what the run has found, and what mypy has found in files that have not changed since."""
        found = {path: [*one] for path, one in self._found.items()}
        for path, more in self._types.found_in.items():
            found.setdefault(path, []).extend(more)
        for path in self._shown - found.keys():
            self._editor.found(path, [])
        for path, one in found.items():
            self._editor.found(path, one)
        self._shown = {path for path, one in found.items() if one}

    async def _start(self) -> Any:
        """Start a worker in place of the one before, and load the project."""
        await self.stop()
        self._is_outdated = False
        self._process = process = await Process.start(WORKER, self._editor.log)
        texts = self._open if self._failures < _MOST_FAILURES - 1 else {}
        self._is_loading = True
        await self._editor.loading(True)
        try:
            return await process.request("start", self._pauses.answer, root=str(self.root), texts=texts)
        finally:
            self._is_loading = False
            await self._editor.loading(False)

    async def _failed(self, why: str) -> bool:
        """Say once that the worker has failed, and return whether it is started again."""
        await self.stop()
        if self._has_ended:
            return False
        self._failures += 1
        failed = f"typedbatch: the check of {self.root.name} has failed ({why})"
        if self._failures >= _MOST_FAILURES:
            self._failures = 0
            self._editor.say(f"{failed}; the next edit tries again")
            return False
        text = f"{failed}, and starts again"
        if not self._has_said:
            self._editor.say(text)
        self._has_said = True
        self._editor.log(text)
        return True

    async def stop(self) -> None:
        """End the worker."""
        self._is_outdated = True
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def end(self) -> None:
        """End the processes, and start no others."""
        self._has_ended = True
        await self._types.end()
        await self.stop()
        async with self._busy:
            await self.stop()  # It may just have been started.

    # ---- questions ------------------------------------------------------------------------------------------------

    async def ask(self, method: str, *, is_settled: bool = True, **params: Any) -> Any:
        """Return the answer of the worker to a question, or None while the worker is not there.

        Args:
            method: Name of the method.
            is_settled: Whether what has changed is checked before.
            params: Its arguments.

        Raises:
            RefusedError: The worker refuses, with a text for people.
        """
        if is_settled and self._changed:
            await self.check()
        process = self._process
        if process is None or self._is_loading:
            return None
        try:
            return await process.request(method, self._pauses.answer, **params)
        except EndedError as error:
            if process is self._process and await self._failed(str(error)):
                self._later(0.0)
            return None
