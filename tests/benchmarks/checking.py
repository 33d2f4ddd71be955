"""Costs of the mypy plugin: a program of plain batches, beside the same one with records and no plugin.

Both have 200 functions with five operations on batches each: construction, reads, a slice, a new field, and a batch
handed to a protocol. mypy has its cache of everything else, as in a run after an edit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .timing import Ratio, seconds_of_process, summary

ROUNDS = 7
FUNCTIONS = 200
BAR = 1.2
SHARE_BAR = 0.1
_PLUGIN = Path(__file__).resolve().parents[2] / "typedbatch" / "mypy"

_HEAD = """\
from typing import Any, Protocol
import numpy as np
from numpy.typing import NDArray
from typedbatch import Batch, BatchProtocol, BatchRecord
Array = NDArray[Any]
class Step(BatchRecord):
    obs: Array
    act: Array
    rew: Array
class StepWithReturns(Step):
    returns: Array
class WithReturns(BatchProtocol, Protocol):
    @property
    def obs(self) -> Array: ...
    @property
    def returns(self) -> Array: ...
def learn(batch: WithReturns) -> None: ...
"""
_PLAIN = """\
def f{i}(z: Array) -> Array:
    b = Batch(obs=z, act=z, rew=z)
    x = b.obs + b.rew
    y = b[:10].act * 2
    b.returns = x + y.sum()
    learn(b)
    return x
"""
_RECORDS = """\
def f{i}(z: Array) -> Array:
    b = Step(obs=z, act=z, rew=z)
    x = b.obs + b.rew
    y = b[:10].act * 2
    c = StepWithReturns(obs=b.obs, act=b.act, rew=b.rew, returns=x + y.sum())
    learn(c)
    return x
"""
_PROFILE = """\
import contextlib, cProfile, pstats, sys
from mypy.main import main
profile = cProfile.Profile()
with contextlib.suppress(SystemExit):
    profile.runcall(main, args=sys.argv[2:], clean_exit=True)
stats = pstats.Stats(profile)
own = sum(row[2] for (file, _, _), row in stats.stats.items() if file.startswith(sys.argv[1]))
print(own / stats.total_tt)
"""


@dataclass(frozen=True)
class Checking:
    """Seconds of CPU time for one run of mypy.

    Attributes:
        share: of a run, what is spent in the plugin's own code. The profiler slows Python code down and compiled code,
            which mypy is, not at all; so it is less in truth.
    """

    records: float
    plain: float
    ratio: Ratio
    share: float


def measure_checking() -> Checking:
    """Interleaved, the ratio that of each round, as with the operations."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {"plain": _HEAD + _program(_PLAIN), "records": _HEAD + _program(_RECORDS)}
        for program, plugin in (("plain", "plugins = typedbatch.mypy\n"), ("records", "")):
            (folder / f"{program}.ini").write_text(f"[mypy]\nstrict = True\n{plugin}", encoding="utf-8")
        plain, records = [], []
        for round_ in range(-1, ROUNDS):
            for program, taken in (("records", records), ("plain", plain)):
                (folder / f"{program}.py").write_text(f"{programs[program]}\n# {round_}\n", encoding="utf-8")
                taken.append(_seconds(folder, program))
        (folder / "plain.py").write_text(f"{programs['plain']}\n# profiled\n", encoding="utf-8")
        command = [sys.executable, "-c", _PROFILE, str(_PLUGIN), *_arguments("plain")]
        printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    ratio = summary([ours / floor for ours, floor in zip(plain[1:], records[1:], strict=True)])
    share = float(printed.split()[-1])
    return Checking(statistics.median(records[1:]), statistics.median(plain[1:]), ratio, share)


def program_of(functions: int) -> str:
    """Return a program of plain batches with this number of functions."""
    return _HEAD + "".join(_PLAIN.format(i=i) for i in range(functions))


def _program(function: str) -> str:
    return "".join(function.format(i=i) for i in range(FUNCTIONS))


def _arguments(program: str) -> list[str]:
    return [f"--config-file={program}.ini", f"--cache-dir={program}", f"{program}.py"]


def _seconds(folder: Path, program: str) -> float:
    return seconds_of_process([sys.executable, "-m", "mypy", *_arguments(program)], folder)
