"""Costs of the import of typedbatch in a fresh interpreter, and the modules that it leaves out."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from .timing import Ratio, seconds_of_process, summary

ROUNDS = 15
BAR = 1.3
HEAVY = ("torch", "pydantic")
IMPORT = "from typedbatch import Batch, Ragged, RolloutBatch, checked, convert, extend, rule, validate"


@dataclass(frozen=True)
class Imports:
    """Seconds are net of a bare interpreter's start."""

    numpy: float
    typedbatch: float
    ratio: Ratio
    loaded: list[str]
    """The heavy modules that came along; there should be none."""


def measure_imports() -> Imports:
    """Interleaved, the ratio that of each round, as with the operations."""
    numpy, typedbatch = [], []
    with tempfile.TemporaryDirectory() as cache:
        # A cache of byte code that is sure to be written: where there is none, compiling is what would be timed.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def seconds(code: str) -> float:
            return seconds_of_process([sys.executable, "-c", code], environment=environment)

        seconds(IMPORT)
        for _ in range(ROUNDS):
            bare = seconds("pass")
            numpy.append(seconds("import numpy") - bare)
            typedbatch.append(seconds(IMPORT) - bare)
    ratio = summary([ours / floor for ours, floor in zip(typedbatch, numpy, strict=True)])
    return Imports(statistics.median(numpy), statistics.median(typedbatch), ratio, _loaded())


def _loaded() -> list[str]:
    code = f"import sys; {IMPORT}; print(*sorted(sys.modules.keys() & {set(HEAVY)}))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
