"""Shapes in a run of the text, without mypy: programs of people who had not seen the checker, right and wrong."""

from __future__ import annotations

import pytest

from tests.program.helpers import found_in, write
from tests.typing.shapes.test_programs import NOT_FOUND, TEXTS, marked

SHAPES = ("batch-shape", "batch-dtype")


def lines_of(name, text, folder):
    """Return the lines of the reports about shapes in a program."""
    write(folder, {name: text if "typedbatch" in text or "jaxtyping" in text else f"{text}\nimport jaxtyping\n"})
    return {one.line for one in found_in(folder) if one.code in SHAPES}


@pytest.mark.parametrize("name", TEXTS["right"])
def test_nothing_is_said_of_what_is_right(name, tmp_path):
    assert lines_of(name, TEXTS["right"][name], tmp_path) == set()


def test_mistakes_are_found_where_they_are(tmp_path):
    missed = set()
    for name, text in TEXTS["wrong"].items():
        lines = lines_of(name, text, tmp_path / name.removesuffix(".py"))
        assert lines <= marked(text), name
        if not lines:
            missed.add(name)
    assert missed == NOT_FOUND
