"""Reports of mypy on random packages of three modules: all findings of the run, the same in every order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.program.combinations import legal
from tests.program.writer import FLAGS_MODULE, MODULES, Package, draw
from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.runs import CONFIG, Report, check, differences
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

COUNT, SEED = 40, 1
_REPORT = re.compile(r"([\w/]+\.py):(\d+): error: (.*)  \[batch-[a-z-]+\]")


@dataclass(frozen=True)
class Sample:
    """Packages in a folder."""

    folder: Path
    cache: Path
    packages: list[Package]


@pytest.fixture(scope="module")
def sample(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    place = tmp_path_factory.mktemp("packages")
    packages = [found[0] for package in draw(SEED, COUNT) if (found := legal(package)) is not None]
    _write(packages, place / "all")
    return Sample(place / "all", warm(kept, PLUGIN, place / "cache"), packages)


@pytest.fixture(scope="module")
def reported(sample: Sample) -> Report:
    """Return the reports of mypy on the sample."""
    return check(sample.folder, sample.cache)


def test_what_the_run_finds_is_reported(sample: Sample, reported: Report) -> None:
    found = {
        (str(one.path.relative_to(sample.folder)), one.line, one.message)
        for program in programs_of(files_in(sample.folder))
        for one in run(program).findings
    }
    told = {(match[1], int(match[2]), match[3]) for line in reported.lines if (match := _REPORT.match(line))}
    assert len(found) > COUNT
    assert found - told == set()


def test_the_same_from_the_cache(sample: Sample, reported: Report) -> None:
    assert differences(reported, check(sample.folder, sample.cache)) == ""


def test_the_same_in_another_order(kept: Path, tmp_path: Path, sample: Sample, reported: Report) -> None:
    files = [f"{package.name}/{module}.py" for package in sample.packages for module in ("__init__", *MODULES)]
    other = check(sample.folder, warm(kept, PLUGIN, tmp_path / "cache"), names=[*reversed(files), "flags.py"])
    assert differences(reported, other) == ""


def test_the_same_once_some_modules_have_changed(sample: Sample, reported: Report) -> None:
    _change_some(sample.packages, sample.folder)
    assert differences(reported, check(sample.folder, sample.cache)) == ""


def _write(packages: Iterable[Package], folder: Path) -> None:
    """Write packages into a folder, with all that mypy needs beside them."""
    folder.mkdir(parents=True)
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    (folder / "flags.py").write_text(FLAGS_MODULE, encoding="utf-8")
    for package in packages:
        (folder / package.name).mkdir()
        (folder / package.name / "__init__.py").write_text("", encoding="utf-8")
        for module, text in package.modules.items():
            (folder / package.name / f"{module}.py").write_text(text, encoding="utf-8")


def _change_some(packages: Sequence[Package], folder: Path) -> None:
    """Change the text of one module in every other package, without a change of meaning."""
    for number, package in enumerate(packages[::2]):
        module = MODULES[number % len(MODULES)]
        text = package.modules[module]
        (folder / package.name / f"{module}.py").write_text(f"{text}\n# the end\n", encoding="utf-8")
