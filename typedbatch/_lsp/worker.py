"""The process in which mypy is kept: a line of JSON in, a line of JSON out, one request after the other.

Lines are counted from 1, columns from 0 in bytes of UTF-8. Paths are relative to the root of the project.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from typedbatch._lsp.disk import ProjectOnDisk
from typedbatch.cli.mypy_run import OWN_CODES
from typedbatch.errors import TypedBatchError

_RECURSION = 2**14
"""As deep as mypy's own command goes."""


class _Project(Protocol):
    @property
    def note(self) -> str: ...

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]: ...

    def update(self, texts: Mapping[str, str | None]) -> dict[str, Any]: ...


class Worker:
    """Answers to requests about one project."""

    def __init__(self) -> None:
        self._project: _Project | None = None

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Return the answer to a request; None for a question that has no answer."""
        if method == "start":
            return self.start(**params)
        if self._project is None:
            raise TypedBatchError("the project is not loaded")
        if method == "update":
            return self._project.update(**params)
        question = self._project.methods.get(method)
        return question(**params) if question is not None else None

    def start(
        self, root: str, python: str | None, cache: str | None, texts: dict[str, str], rebuild: bool
    ) -> dict[str, Any]:
        """Load the project, and return what is found in the open files, and a note for the person."""
        os.chdir(root)
        try:  # These are the errors where another version of mypy has other names.
            from typedbatch._lsp.building import Setup
            from typedbatch._lsp.memory import ProjectInMemory

            project: _Project = ProjectInMemory(Setup(root, python, cache, texts), rebuild=rebuild)
            found = project.update(texts)
        except (ImportError, AttributeError, TypeError) as error:
            traceback.print_exc()
            project = ProjectOnDisk(root, python, cache, f"{type(error).__name__}: {error}")
            found = project.update(texts)
        self._project = project
        return {**found, "note": project.note}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer each request, until the input ends."""
    worker = Worker()
    for line in requests:
        given = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": worker.answer(given["method"], given["params"])}
        except TypedBatchError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001  # whatever is in one file, the server goes on
            answer = {"error": traceback.format_exc(), "is_crash": True}
        answers.write(json.dumps({"id": given["id"], **answer}) + "\n")
        answers.flush()


def end_with_server() -> None:
    """End this process and the one that builds a program, once the server has gone, however that came.

    While a program is built, nobody reads standard input, and the end of it would be seen minutes later.
    """
    watch = select.poll()
    watch.register(sys.stdin.fileno(), select.POLLHUP)
    watch.poll()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serve on standard input and output; what mypy and plugins print goes to standard error."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():  # The server starts it in a group of its own.
        threading.Thread(target=end_with_server, daemon=True).start()
    sys.setrecursionlimit(_RECURSION)
    os.environ[OWN_CODES] = "1"
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
