"""The process in which mypy is kept: a line of JSON in, a line of JSON out, one request after the other.

Lines are counted from 1, columns from 0 in bytes of UTF-8. Paths are relative to the root of the project.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from typedbatch._check.running import OWN_CODES
from typedbatch._lsp.building import Setup
from typedbatch._lsp.checker import Checker
from typedbatch._lsp.completing import complete
from typedbatch._lsp.recording import record
from typedbatch._lsp.renaming import rename
from typedbatch._lsp.showing import definition, hints, hover
from typedbatch.errors import TypedBatchError

_RECURSION = 2**14
"""As deep as mypy's own command goes."""


class Worker:
    """Answers to requests about one project."""

    def __init__(self) -> None:
        self._checker: Checker | None = None
        self._known_imports: set[str] = set()
        self.methods: Mapping[str, Callable[..., Any]] = {
            "start": self.start,
            "update": self.update,
            "complete": lambda **given: complete(self.checker, **given),
            "hover": lambda **given: hover(self.checker, **given),
            "hints": lambda **given: hints(self.checker, **given),
            "definition": lambda **given: definition(self.checker, **given),
            "record": lambda **given: record(self.checker, **given),
            "rename": lambda **given: rename(self.checker, **given),
        }

    @property
    def checker(self) -> Checker:
        """The program, which ``start`` has loaded."""
        if self._checker is None:
            raise TypedBatchError("the project is not loaded")
        return self._checker

    def start(
        self, root: str, python: str | None, cache: str | None, texts: dict[str, str], rebuild: bool
    ) -> dict[str, Any]:
        """Load the program, and return what is found in the open files."""
        os.chdir(root)
        self._checker = Checker(Setup(root, python, cache, texts), rebuild=rebuild)
        self._known_imports = self._checker.imports_others(texts.values())
        return self.update(dict(texts))

    def update(self, texts: dict[str, str | None]) -> dict[str, Any]:
        """Check files, and return what is found in all files.

        Where a text imports packages that are installed and were not read so far, nothing is checked, and their names
        are returned: mypy would read them one module at a time.
        """
        new = self.checker.imports_others(text for text in texts.values() if text is not None) - self._known_imports
        if new:
            return {"found": {}, "imports": sorted(new)}
        self.checker.update(texts)
        found = {
            path: [one.to_dict() for one in self.checker.found_in(path)]
            for path in {*self.checker.paths_with_findings, *texts}
        }
        return {"found": found, "imports": []}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer each request, until the input ends."""
    worker = Worker()
    for line in requests:
        given = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": worker.methods[given["method"]](**given["params"])}
        except TypedBatchError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001  # whatever is in one file, the server goes on
            answer = {"error": traceback.format_exc(), "is_crash": True}
        answers.write(json.dumps({"id": given["id"], **answer}) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; what mypy and plugins print goes to standard error."""
    sys.setrecursionlimit(_RECURSION)
    os.environ[OWN_CODES] = "1"
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
