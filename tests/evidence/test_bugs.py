"""Bugs that were reported: each program goes wrong with dicts, and is caught, or is right, with typedbatch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.bugs.__main__ import page
from tests.evidence.bugs.programs import PROGRAMS
from typedbatch import errors

RIGHT = {"bug_16_meta_shared_by_chunks"}
"""With typedbatch these are no mistake."""
SAYS = {
    "01": (errors.StructureError, "rows"),
    "02": (errors.SchemaError, "TB101"),
    "03": (TypeError, "rollout_logp"),
    "04": (errors.StructureError, "'success' is missing in batch 0"),
    "05": (errors.SchemaError, "TB302"),
    "06": (errors.SchemaError, "TB303"),
    "07": (errors.SchemaError, "TB201"),
    "08": (errors.SchemaError, "TB401"),
    "09": (errors.SchemaError, "TB402"),
    "10": (errors.SizeError, "must have 2 rows, but group 't0' has 1"),
    "11": (errors.SchemaError, "TB402"),
    "12": (errors.SchemaError, "TB402"),
    "13": (errors.SchemaError, "TB402"),
    "14": (errors.SchemaError, "TB402"),
    "15": (errors.RowIndexError, "pixels.*Ragged"),
    "17": (errors.StructureError, "meta"),
    "18": (errors.StructureError, "old_log_probs"),
    "19": (errors.SizeError, "4"),
    "20": (errors.SchemaError, "TB101"),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
def test_goes_wrong_with_dicts_and_is_caught(program):
    assert program.broken()
    number = program.__name__.rpartition(".")[2].split("_")[1]
    if number in SAYS:
        error, text = SAYS[number]
        with pytest.raises(error, match=text):
            program.typed()
    elif program.CAUGHT_BY:
        assert program.__name__.rpartition(".")[2] in RIGHT
        assert program.typed() == [0.1, 0.7]


def test_at_least_eighteen_are_caught():
    assert len(PROGRAMS) == 22
    assert sum(bool(program.CAUGHT_BY) for program in PROGRAMS) >= 18
    assert all(program.LINK.startswith("https://github.com/") for program in PROGRAMS)


def test_the_page_is_up_to_date():
    committed = Path(__file__).parents[2] / "docs" / "evidence" / "bugs.md"
    assert committed.read_text(encoding="utf-8").startswith(page()), "make bugs-docs"
