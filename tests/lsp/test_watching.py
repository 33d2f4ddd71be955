"""A run that is watched finds what any other run finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from typedbatch._lsp.watching import Watching
from typedbatch._program.arrays.sizes import Ranks
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

PROGRAMS = programs_of(files_in(Path(__file__).parents[1] / "program" / "programs"))
PROGRAMS += programs_of(files_in(Path(__file__).parents[2] / "docs" / "examples"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.sources[0].path.stem)
def test_a_run_that_is_watched_finds_the_same(program):
    watched = run(program, make=lambda program, ranks: Watching(program, ranks, program.sources))
    assert watched == run(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.sources[0].path.stem)
def test_what_is_seen_does_not_depend_on_the_files_that_are_watched(program):
    def seen_in(watched):
        watching = Watching(program, Ranks(), watched)
        watching.run()
        return watching.places[program.sources[0]].seen

    assert seen_in(program.sources) == seen_in(program.sources[:1])
