"""A project that is edited: what has changed since the last check, and the worker that checks it."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from typedbatch._lsp.process import EndedError, Process, RefusedError
from typedbatch._lsp.reduced import sets_attributes
from typedbatch.cli.mypy_run import tree_of


@dataclass(frozen=True)
class Pauses:
    """Seconds that the server waits.

    Attributes:
        edit: After an edit, for the next one.
        outline: After an edit that changes more than bodies of functions, as other files are then checked too.
        answer: For an answer of the worker.
        start: For the worker to load a project, which takes half a minute or more without a cache.
    """

    edit: float = 0.15
    outline: float = 0.6
    answer: float = 60.0
    start: float = 900.0


class Client(Protocol):
    """The editor, as a project speaks to it."""

    def found(self, path: str, found: list[dict[str, Any]]) -> None:
        """Show what is found in a file."""
        ...

    def checked(self) -> None:
        """Ask again for what is shown beside the code."""
        ...

    def say(self, text: str) -> None:
        """Show a text to the person."""
        ...

    def log(self, text: str) -> None:
        """Write a line to the log."""
        ...

    async def loading(self, is_loading: bool) -> None:
        """Show that the project is loaded, or that it is done."""
        ...


_MOST_FAILURES = 3


class Project:
    """A project.

    Args:
        root: Its folder.
        client: The editor.
        python: Python whose packages the code imports; None for that of the project.
        cache: Folder of the cache; None for one in the root.
        pauses: Times to wait.
    """

    def __init__(
        self,
        root: Path,
        client: Client,
        python: str | None = None,
        cache: str | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self.root = root
        self._client = client
        self._python = python
        self._cache = cache
        self._pauses = pauses or Pauses()
        self._open: dict[str, str] = {}
        self._changed: dict[str, str | None] = {}
        self._outlines: dict[str, str] = {}
        self._shown: set[str] = set()
        self._process: Process | None = None
        self._is_loading = False
        self._is_outdated = True
        self._has_ended = False
        self._failures = 0
        self._has_said = False
        self._refusal = ""
        self._note = ""
        self._timer: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    # ---- edits ----------------------------------------------------------------------------------------------------

    def edit(self, path: str, text: str, *, at_once: bool = False) -> None:
        """Take the text of a file that is open, and check it after a pause, or at once."""
        self._open[path] = self._changed[path] = text
        self._later(0.0 if at_once else self._pauses.edit)

    def save(self, path: str) -> None:
        """Check what has changed at once; of a file that is not open, the text on disk."""
        if path not in self._open:
            self._changed[path] = None
        elif self._note:  # The worker checks files on disk.
            self._changed[path] = self._open[path]
        self._later(0.0)

    def close(self, path: str) -> None:
        """Go back to the text on disk."""
        if self._open.pop(path, None) is not None:
            self._changed[path] = None
            self._later(self._pauses.edit)

    def load_again(self) -> None:
        """Load the project again, as its settings have changed."""
        self._is_outdated = True
        self._later(0.0)

    def _later(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.create_task(self._after(pause))

    async def _after(self, pause: float) -> None:
        await asyncio.sleep(pause)
        if pause and self._process is not None and any(map(self._has_new_outline, self._changed)):
            await asyncio.sleep(max(self._pauses.outline - pause, 0))
        self._timer = None  # From here on, another edit does not cancel the check, which mypy cannot stop.
        await self.check()

    def _has_new_outline(self, path: str) -> bool:
        text = self._changed.get(path)
        return text is not None and path in self._outlines and outline(text) not in (None, self._outlines[path])

    # ---- checks ---------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Check what has changed, once the worker is there."""
        async with self._busy:
            while (self._changed or self._is_outdated) and not self._has_ended:
                changed, self._changed = self._changed, {}
                try:
                    await self._check(changed)
                except EndedError as error:
                    self._changed = {**changed, **self._changed}
                    if not await self._failed(str(error)):
                        return
                except RefusedError as error:
                    if str(error) != self._refusal:
                        self._client.say(f"typedbatch: {error}")
                    self._refusal = str(error)
                    return
        self._client.checked()

    async def _check(self, changed: dict[str, str | None]) -> None:
        if self._process is None or self._is_outdated:
            done = await self._start(rebuild=False)
        else:
            done = await self._process.request("update", self._pauses.answer, texts=changed)
        if done["imports"]:
            self._client.log(f"reading {', '.join(done['imports'])}, which the code imports now")
            done = await self._start(rebuild=True)
        self._failures = 0
        for path, text in changed.items():
            self._outlines[path] = (outline(text) if text is not None else None) or self._outlines.get(path, "")
        for path in self._shown - done["found"].keys():
            self._client.found(path, [])
        for path, found in done["found"].items():
            self._client.found(path, found)
        self._shown = {path for path, found in done["found"].items() if found}

    async def _start(self, *, rebuild: bool) -> Any:
        """Start a worker in place of the one before, and load the project."""
        await self.stop()
        self._is_outdated = False
        self._process = process = await Process.start(self._client.log)
        texts = self._open if self._failures < _MOST_FAILURES - 1 else {}
        self._is_loading = True
        await self._client.loading(True)
        try:
            done = await process.request(
                "start",
                self._pauses.start,
                root=str(self.root),
                python=self._python,
                cache=self._cache,
                texts=texts,
                rebuild=rebuild,
            )
            if done["note"] not in ("", self._note):
                self._note = done["note"]
                self._client.say(f"typedbatch: {self._note}")
            return done
        except RefusedError:
            await self.stop()
            raise
        finally:
            self._is_loading = False
            await self._client.loading(False)

    async def _failed(self, why: str) -> bool:
        """Say once that the worker has failed, and return whether it is started again."""
        await self.stop()
        if self._has_ended:
            return False
        self._failures += 1
        failed = f"typedbatch: the check of {self.root.name} has failed ({why})"
        if self._failures >= _MOST_FAILURES:
            self._failures = 0
            self._client.say(f"{failed}; the next edit tries again")
            return False
        text = f"{failed}, and starts again"
        if not self._has_said:
            self._client.say(text)
        self._has_said = True
        self._client.log(text)
        return True

    async def stop(self) -> None:
        """End the worker."""
        self._is_outdated = True
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def end(self) -> None:
        """End the worker, and start no other."""
        self._has_ended = True
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


def outline(text: str) -> str | None:
    """Return what other files may see of a file: all but the bodies of functions; None if it cannot be read."""
    try:
        tree = tree_of(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not sets_attributes(node):
                node.body = []
        return ast.dump(tree)
    except (SyntaxError, RecursionError):
        return None
