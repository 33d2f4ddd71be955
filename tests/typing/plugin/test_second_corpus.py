"""Programs that read fields by name wherever they like, of results declared as ``Batch`` too, as people do.

mypy takes such reads as ``Any`` without the plugin. With it, it must refuse no line more.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.typing.caches import MYPY, PLUGIN, warm
from tests.typing.checkers import Checker
from tests.typing.plugin.corpus import CORPUS, programs, settings
from tests.typing.plugin.runs import check

PROGRAMS = programs(CORPUS.with_name("corpus2"))
_ERROR = re.compile(r"(?P<place>[^:]+:\d+): error: .*")


def refused(kept: Path, place: Path, mypy: Checker) -> set[str]:
    """The lines that mypy reports."""
    for program in PROGRAMS:
        program.write(place / "programs")
    config = settings(mypy.settings["mypy.ini"], [program.name for program in PROGRAMS])
    (place / "programs" / "mypy.ini").write_text(config, encoding="utf-8")
    lines = check(place / "programs", warm(kept, mypy, place / "cache")).lines
    return {match["place"] for line in lines if (match := _ERROR.fullmatch(line)) is not None}


def test_no_line_is_refused_that_mypy_takes_without_the_plugin(kept: Path, tmp_path: Path) -> None:
    with_plugin = refused(kept, tmp_path / "with", PLUGIN)
    without = refused(kept, tmp_path / "without", MYPY)
    assert sorted(with_plugin - without) == []
