"""Waits in an editor: what the language server takes after an edit, for a completion, and to start.

The programs are those of :mod:`tests.benchmarks.checking`, with as many functions as make a number of lines. Times are
those of a client over stdio, less the pause for the next edit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lsp.client import Editor
from typedbatch._lsp.project import Pauses

from .checking import program_of

EDITS = 9


@dataclass(frozen=True)
class Wait:
    """A wait beside its budget.

    Attributes:
        name: Name.
        measured: Median.
        budget: Budget.
        unit: Unit of both.
    """

    name: str
    measured: float
    budget: float
    unit: str = "ms"

    @property
    def missed(self) -> bool:
        """Whether the wait is over its budget."""
        return self.measured > self.budget


def measure_editing() -> Iterator[Wait]:
    """Yield each wait."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        budgets = {100: 200, 500: 250, 3000: 600}
        texts = {lines: f"import torch\n{program_of((lines - 18) // 7)}" for lines in budgets}
        (folder / "lines100.py").write_text(texts[100], "utf-8")
        yield Wait("start", statistics.median(_start(folder) for _ in range(3)), 2, "s")
        editor = Editor(folder)
        for lines, budget in budgets.items():
            editor.open(f"lines{lines}.py", texts[lines])
            yield Wait(f"edit to diagnostics, {lines:,} lines", _edit(editor, lines, texts[lines]), budget)
        yield Wait("completion, 500 lines", _completion(editor, texts[500]), 200)
        yield Wait("memory of the worker", _memory(editor), 350, "MB")
        editor.stop()


def _start(folder: Path) -> float:
    began = time.perf_counter()
    editor = Editor(folder)
    editor.open("lines100.py")
    taken = time.perf_counter() - began
    editor.stop()
    return taken


def _edit(editor: Editor, lines: int, text: str) -> float:
    taken = []
    for edit in range(EDITS):
        began = time.perf_counter()
        editor.edit(f"lines{lines}.py", text.replace("b[:10]", f"b[:{10 + edit}]"))
        taken.append(time.perf_counter() - began - Pauses.edit)
    return 1000 * statistics.median(taken)


def _completion(editor: Editor, text: str) -> float:
    taken = []
    for edit in range(EDITS):
        mark = f"y = b[:{10 + edit}].act * 2"
        new = text.replace("y = b[:10].act * 2\n", f"{mark}\n    b.\n", 1)
        editor.edit("lines500.py", text)
        began = time.perf_counter()
        editor.type("lines500.py", new)
        found = editor.labels("lines500.py", f"{mark}\n    b.|\n")
        taken.append(time.perf_counter() - began)
        if found != ["obs", "act", "rew"]:
            raise RuntimeError(f"the server offers {found}")
    return 1000 * statistics.median(taken)


def _memory(editor: Editor) -> float:
    """Return the most memory that the worker has had; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0.0
    (worker,) = Path(f"/proc/{editor.pid}/task/{editor.pid}/children").read_text("utf-8").split()
    status = Path(f"/proc/{worker}/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
