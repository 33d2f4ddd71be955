"""Whether six type checkers see the types of the wheel, installed beside them: ``py.typed`` is there, and is heeded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.release.environments import Environment
from tests.release.report import Wrong
from tests.typing.checkers import CHECKERS, Checker, CheckerFailedError, run, with_plugin

SEEN = ("mypy", "pyright", "basedpyright", "pyrefly", "ty", "zuban")
PACKAGES = ("mypy", "pyright[nodejs]", "basedpyright", "pyrefly", "ty", "zuban")
DECLARED = """\
from typedbatch import RolloutBatch, RolloutBatchProtocol


def size(batch: RolloutBatchProtocol) -> int:
    return len(batch)


def collect(batch: RolloutBatch) -> int:
    print(batch.rew.shape)
    print(batch.reward.shape)  # wrong
    return size(batch)
"""
BY_PLUGIN = """\
import numpy as np

from typedbatch import Batch

batch = Batch(obs=np.zeros(3))
print(batch.obs)
print(batch.observation)  # wrong: the plugin alone knows the fields of plain batches
"""


def checks() -> Iterator[tuple[str, Checker, str]]:
    """The name, the checker and the program of each."""
    for name in SEEN:
        yield name, CHECKERS[name], DECLARED
    yield "mypy with the plugin", with_plugin(CHECKERS["mypy"]), BY_PLUGIN


def reports_the_wrong_line(checker: Checker, program: str, environment: Environment, place: Path) -> str:
    """Return what the checker reports for the one wrong line.

    Raises:
        Wrong: it says nothing of that, or something of another.
    """
    place.mkdir()
    (place / "program.py").write_text(program, encoding="utf-8")
    wrong = {number for number, line in enumerate(program.splitlines(), 1) if "# wrong" in line}
    try:
        found = run(checker, place, place / "cache", environment.python)
    except CheckerFailedError as error:
        raise Wrong(str(error)) from error
    if {report.line for report in found} != wrong:
        said = [f"line {report.line}: {report.message}" for report in found]
        raise Wrong("\n".join([f"only line {min(wrong)} should be reported, and it says:", *said]))
    return f"line {min(wrong)} alone: {found[0].message.splitlines()[0][:80]}"
