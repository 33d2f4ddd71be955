"""The process in which programs are run: a line of JSON in, a line of JSON out, one request after the other.

Lines are counted from 1, columns from 0 in bytes of UTF-8. Paths are relative to the root of the project.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

from typedbatch._lsp.completing import complete
from typedbatch._lsp.recording import record
from typedbatch._lsp.renaming import rename
from typedbatch._lsp.runs import Runs
from typedbatch._lsp.showing import definition, hints, hover
from typedbatch._program.source import RECURSION
from typedbatch.errors import TypedBatchError

_COLLECTING: Final = (20_000, 5, 3)
"""Numbers for ``gc.set_threshold``. A run makes many objects, of which nearly all are gone at its end."""
Method = Callable[..., Any]


def start(methods: dict[str, Method], root: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Load a project, add the methods that are about it, and return what is found in it."""
    runs = Runs(Path(root))
    questions = (complete, hover, hints, definition, record, rename)
    methods.update({one.__name__: partial(one, runs) for one in questions}, update=runs.update)
    return runs.update(texts)


def serve(requests: TextIO, answers: TextIO, methods: Mapping[str, Method]) -> None:
    """Answer each request, until the input ends."""
    for line in requests:
        given = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": methods[given["method"]](**given["params"])}
        except TypedBatchError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001  # whatever is in one file, the server goes on
            answer = {"error": traceback.format_exc(), "is_crash": True}
        answers.write(json.dumps({"id": given["id"], **answer}) + "\n")
        answers.flush()


def end_with_server() -> None:
    """End this process and those that it has started, once the server has gone, however that came.

    While a program is run, nobody reads standard input, and the end of it would be seen later.
    """
    watch = select.poll()
    watch.register(sys.stdin.fileno(), select.POLLHUP)
    watch.poll()
    os.killpg(0, signal.SIGKILL)


def main(methods: Mapping[str, Method]) -> None:
    """Serve on standard input and output; what is printed meanwhile goes to standard error."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():  # The server starts it in a group of its own.
        threading.Thread(target=end_with_server, daemon=True).start()
    sys.setrecursionlimit(RECURSION)
    gc.freeze()  # What is imported so far stays.
    gc.set_threshold(*_COLLECTING)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers, methods)


if __name__ == "__main__":
    known: dict[str, Method] = {}
    known["start"] = partial(start, known)
    main(known)
