"""Costs of branches under the mypy plugin: programs that set another field in each of more and more branches.

Each time is of a run of mypy less that of a run without branches, so it is the branches' own. Where it doubles when
their number does, cost is linear; alternatives that multiply would show from ten branches on.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .timing import seconds_of_process

COUNTS = (5, 10, 20, 40)
ROUNDS = 2
COPIES = 20
GROWTH_BAR = 3.0  # twice the branches; 2 is linear, 4 quadratic
_HEAD = "import numpy as np\nfrom typedbatch import Batch\nv = np.zeros(3)\n"


def _either(count: int) -> Iterator[str]:
    for i in range(count):
        yield f"    if flag:\n        b.x{i} = v\n    else:\n        b.y{i} = v"


def _one_armed(count: int) -> Iterator[str]:
    for i in range(count):
        yield f"    if flag:\n        b.x{i} = v"


def _nested(count: int) -> Iterator[str]:
    for i in range(count):
        inner = "    " * (i % 8)
        yield f"    {inner}if flag:\n        {inner}b.x{i} = v"


def _matched(count: int) -> Iterator[str]:
    yield "    match k:"
    for i in range(count):
        yield f"        case {i}:\n            b.x{i} = v"


def _tried(count: int) -> Iterator[str]:
    for i in range(count):
        yield f"    try:\n        b.x{i} = v\n    except ValueError:\n        b.y{i} = v"


def _looped(count: int) -> Iterator[str]:
    yield "    for _ in range(k):"
    for i in range(count):
        yield f"        if flag:\n            b.x{i} = v\n        else:\n            b.y{i} = v"


KINDS: dict[str, Callable[[int], Iterator[str]]] = {
    "if and else": _either, "if alone": _one_armed, "nested": _nested, "match": _matched, "try": _tried,
    "in a loop": _looped,
}  # fmt: skip


@dataclass(frozen=True)
class Branches:
    """Seconds of CPU time for each count of ``COUNTS``, of one function."""

    kind: str
    seconds: tuple[float, ...]


def measure_branches() -> list[Branches]:
    """Each kind with each count; the quickest of a few runs, less that of a program without branches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mypy.ini").write_text("[mypy]\nplugins = typedbatch.mypy\n", encoding="utf-8")
        (folder / "program.py").write_text(_HEAD, encoding="utf-8")
        _seconds(folder)  # fills the cache
        floor = _quickest(folder, _program(lambda _: iter(()), 0))
        return [
            Branches(kind, tuple((_quickest(folder, _program(lines, n)) - floor) / COPIES for n in COUNTS))
            for kind, lines in KINDS.items()
        ]


def _program(lines: Callable[[int], Iterator[str]], count: int) -> str:
    functions = []
    for copy in range(COPIES):
        head = f"def f{copy}(flag: bool, k: int) -> None:\n    b = Batch(obs=v)"
        functions.append("\n".join([head, *lines(count), "    print(b.obs)"]))
    return _HEAD + "\n".join(functions) + "\n"


def _quickest(folder: Path, program: str) -> float:
    taken = []
    for round_ in range(ROUNDS):
        (folder / "program.py").write_text(f"{program}# {round_}\n", encoding="utf-8")
        taken.append(_seconds(folder))
    return min(taken)


def _seconds(folder: Path) -> float:
    return seconds_of_process([sys.executable, "-m", "mypy", "program.py"], folder)
