"""Costs of the run of a program on abstract values, beside the parsing of its files.

Programs are random packages of classes, closures and conditions, which one module imports. Nearly every line of them
is about a batch.
"""

from __future__ import annotations

import ast
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.program.helpers import write
from tests.program.writer import FLAGS_MODULE, draw
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

ROUNDS = 3
BAR = 0.2
_PACKAGES = (10, 60, 360)


@dataclass(frozen=True)
class ProgramRun:
    """Seconds of CPU time per 1,000 lines of a program.

    Attributes:
        floor: Seconds of ``ast.parse``.
        taken: Seconds to find the files, parse and run them.
    """

    lines: int
    floor: float
    taken: float


def measure_program_runs() -> Iterator[ProgramRun]:
    """Yield the costs of programs of three lengths."""
    for count in _PACKAGES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _write(folder, count)
            texts = [file.read_text("utf-8") for file in files_in(folder)]
            lines = sum(len(text.splitlines()) for text in texts)

            def parse(texts: list[str] = texts) -> None:
                for text in texts:
                    ast.parse(text)

            def check(folder: Path = folder) -> None:
                (program,) = programs_of(files_in(folder))
                run(program)

            yield ProgramRun(lines, _seconds(parse, lines), _seconds(check, lines))


def _write(folder: Path, count: int) -> None:
    packages = draw(1, count, frozenset({"is"}))
    files = {f"{one.name}/{name}.py": text for one in packages for name, text in one.modules.items()}
    imports = "".join(f"import {one.name}.main\n" for one in packages)
    write(folder, {**files, "flags.py": FLAGS_MODULE, "every.py": imports, "pyproject.toml": ""})
    write(folder, {f"{one.name}/__init__.py": "" for one in packages})


def _seconds(task: Callable[[], None], lines: int) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        task()
        taken.append(time.process_time() - began)
    return 1000 * statistics.median(taken) / lines
