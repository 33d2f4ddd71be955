"""Programs that read fields by name wherever they like, of results declared as ``Batch`` too, as people do.

mypy refuses such reads without the plugin. With it, it must refuse no line more, and many fewer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.typing.plugin.corpus import CORPUS, programs
from tests.typing.plugin.runs import base_cache, check
from tests.typing.plugin.test_corpus import SETTINGS

PROGRAMS = programs(CORPUS.with_name("corpus2"))
WITHOUT = SETTINGS.replace("plugins = typedbatch.mypy\n", "")
_ERROR = re.compile(r"(?P<place>[^:]+:\d+): error: .*")


@pytest.fixture(scope="module")
def kept(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("kept") if found is None else Path(found.mkdir("mypy-plugin-corpus"))


def refused(kept: Path, place: Path, settings: str) -> set[str]:
    """The lines that mypy reports."""
    for program in PROGRAMS:
        program.write(place / "programs")
    (place / "programs" / "mypy.ini").write_text(settings, encoding="utf-8")
    lines = check(place / "programs", base_cache(kept, place / "cache", settings)).lines
    return {match["place"] for line in lines if (match := _ERROR.fullmatch(line)) is not None}


def test_no_line_is_refused_that_mypy_takes_without_the_plugin(kept: Path, tmp_path: Path) -> None:
    with_plugin = refused(kept, tmp_path / "with", SETTINGS)
    without = refused(kept / "without", tmp_path / "without", WITHOUT)
    assert sorted(with_plugin - without) == []
    assert len(with_plugin) < len(without) / 3
