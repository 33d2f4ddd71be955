"""One verdict: what is said of a file is the same whatever is checked beside it, in whatever order."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings as profile

from tests.typing.caches import MYPY, PLUGIN, warm
from tests.typing.plugin import runs
from tests.typing.plugin.corpus import programs, settings
from tests.typing.plugin.runs import CONFIG, by_command, check, fill, in_daemon

PROGRAMS = Path(__file__).parent / "programs"
slow = pytest.mark.skipif(profile.get_current_profile_name() != "fuzz", reason="make fuzz runs it")
_OWNER = re.compile(r"([\w/]+\.py):")


def sources() -> dict[str, str]:
    """Right and wrong programs in a file each: those of ``programs/``, and those of the corpus with a mistake."""
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))}
    for program in programs():
        if len(program.files) == 1:
            mistake = next(iter(program.mistakes()))
            found.update(program.with_mistake(mistake).files)
    return found


NAMES = [name.removesuffix(".py") for name in (*sources(), "loose.py")]
SETTINGS, WITHOUT = settings(CONFIG, NAMES), settings(runs.WITHOUT, NAMES)


def by_file(lines: tuple[str, ...]) -> dict[str, list[str]]:
    """Reports, by the file that they are about."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if '" defined in "' in line:
            continue  # a note of mypy's own, which its daemon leaves out
        owner = _OWNER.match(line)
        found.setdefault(owner[1] if owner else "", []).append(line)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verdict")


@pytest.fixture(scope="module")
def together(kept: Path, place: Path) -> dict[str, list[str]]:
    """What is said of each file when all are checked at once."""
    files = {"mypy.ini": SETTINGS, **sources()}
    fill(place / "together", files)
    return by_file(check(place / "together", warm(kept, PLUGIN, place / "cache")).lines)


def test_a_few_at_a_time(kept: Path, place: Path, together: dict[str, list[str]]) -> None:
    """In random handfuls, each from the cache that the last has left: other neighbours, another order."""
    names = sorted(sources())
    run = by_command(place / "few", warm(kept, PLUGIN, place / "few-cache"))
    Random(0).shuffle(names)
    for start in range(0, len(names), 12):
        some = names[start : start + 12]
        found = by_file(run({"mypy.ini": SETTINGS, **{name: sources()[name] for name in some}}).lines)
        assert found == {name: together[name] for name in some if name in together}


@slow
def test_each_alone(kept: Path, place: Path, together: dict[str, list[str]]) -> None:
    for name, text in sources().items():
        folder = place / "alone" / name
        fill(folder, {"mypy.ini": SETTINGS, name: text})
        found = by_file(check(folder, warm(kept, PLUGIN, place / f"cache-{name}")).lines)
        assert found.get(name, []) == together.get(name, [])


@pytest.mark.release  # its daemon takes long to start, and test_runs has one that is asked after more edits
def test_in_the_daemon_after_edits(kept: Path, place: Path, together: dict[str, list[str]]) -> None:
    names = sorted(sources())
    some = Random(1).sample(names, 8)
    files = {"mypy.ini": SETTINGS, **{name: sources()[name] for name in some}}
    expected = {name: together[name] for name in some if name in together}
    with in_daemon(place / "daemon", warm(kept, PLUGIN, place / "daemon-cache")) as run:
        for edited in ("", *some):
            texts = {name: text + "\nedited = 1\n" if name == edited else text for name, text in files.items()}
            assert by_file(run(texts).lines) == expected, edited


def test_what_mypy_reports_without_the_plugin_it_reports_with_it(kept: Path, place: Path) -> None:
    """Line by line, but for the fields of plain batches, which mypy alone knows nothing of."""
    texts = {"loose.py": LOOSE}
    fill(place / "with", {"mypy.ini": SETTINGS, **texts})
    fill(place / "without", {"mypy.ini": WITHOUT, **texts})
    said = check(place / "with", warm(kept, PLUGIN, place / "with-cache")).lines
    unsaid = check(place / "without", warm(kept, MYPY, place / "without-cache")).lines
    lines = [{int(line.split(":")[1]) for line in one if ": error: " in line} for one in (said, unsaid)]
    marked = {number for number, line in enumerate(LOOSE.splitlines(), 1) if "# E" in line}
    assert lines[1] == marked
    assert lines[0] == marked


LOOSE = """\
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, SupportsFloat, SupportsIndex
import numpy as np
from typedbatch import Batch, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol, stack
def call(x: Callable[[], int]) -> None: ...
def real(x: SupportsFloat) -> None: ...
def number(x: SupportsIndex) -> None: ...
def managed(x: contextlib.AbstractContextManager[Any]) -> None: ...
def ask(x: ObsBatchProtocol) -> None: ...
def of_numbers(x: Iterable[int]) -> None: ...
def of_unknown(b: Batch) -> None:
    ask(b)  # E
    float(b)  # E
    int(b)  # E
    complex(b)  # E
    round(b)  # E
    open(b)  # E
    with b:  # E
        pass
    call(b)  # E
    real(b)  # E
    number(b)  # E
    managed(b)  # E
    of_numbers(b)  # E
    b()  # E
    b @ b  # E
    b.obs
    b.__enter__()  # E
    for row in b:
        row.obs
    b[:3].obs
    b.copy().obs
    next(b.split(2)).obs
    stack([b, b]).obs
    text: str = b  # E
    print(text, len(b), b["obs"], b.get("obs"), b + 1, -b, b == b)
def given(b: Batch) -> ObsBatchProtocol:
    return b  # E
async def waited(b: Batch) -> None:
    await b  # E
    async with b:  # E
        pass
    async for row in b:  # E
        print(row)
def of_table(table: dict[str, Any]) -> RolloutBatchProtocol:
    b = Batch(table)
    b.obs
    Batch(**table).obs
    return b  # E
def known() -> None:
    b = Batch(obs=np.zeros(3), info=Batch())
    b.__enter__()  # E
    float(b)  # E
    with b:  # E
        pass
    call(b)  # E
    real(b)  # E
    b()  # E
def declared(r: RolloutBatch, p: RolloutBatchProtocol) -> None:
    r.reward  # E
    p.reward  # E
    r.reward = 3  # E
    p.obs = 3  # E
    float(r)  # E
    call(p)  # E
"""
