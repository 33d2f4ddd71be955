"""A project in memory, with an answer to each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from typedbatch._lsp.building import Setup
from typedbatch._lsp.checker import Checker
from typedbatch._lsp.completing import complete
from typedbatch._lsp.recording import record
from typedbatch._lsp.renaming import rename
from typedbatch._lsp.showing import definition, hints, hover


class ProjectInMemory:
    """A project that mypy keeps in memory.

    Args:
        setup: The project.
        rebuild: Whether the cache is written again, as the project imports packages that are not in it.
    """

    def __init__(self, setup: Setup, *, rebuild: bool) -> None:
        self.note = ""
        self._checker = checker = Checker(setup, rebuild=rebuild)
        self._known_imports = checker.imports_others((setup.texts or {}).values()) - checker.unread_imports
        questions = (complete, hover, hints, definition, record, rename)
        self.methods: Mapping[str, Callable[..., Any]] = {one.__name__: partial(one, checker) for one in questions}

    def update(self, texts: Mapping[str, str | None]) -> dict[str, Any]:
        """Check files, and return what is found in all files.

        Where a text imports packages that are installed and were not read so far, nothing is checked, and their names
        are returned: mypy would read them one module at a time.
        """
        imported = self._checker.imports_others(text for text in texts.values() if text is not None)
        new = (imported | self._checker.unread_imports) - self._known_imports
        if new:
            return {"found": {}, "imports": sorted(new)}
        self._checker.update(texts)
        found = {
            path: [one.to_dict() for one in self._checker.found_in(path)]
            for path in {*self._checker.paths_with_findings, *texts}
        }
        return {"found": found, "imports": []}
