"""Shapes in a run of the text, without mypy: programs of people who had not seen the checker, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pairs import programs_in, right_of, wrong_of
from tests.program.helpers import found_in, write
from tests.typing.marks import shown_in
from tests.typing.shapes.test_programs import NOT_FOUND, SHIPPED, TEXTS, marked

HERE = Path(__file__).parent / "shapes"
SHAPES = ("batch-shape", "batch-dtype")
SINGLE = programs_in(HERE)
RIGHT = {name: text for name, text in SINGLE.items() if "# wrong: " not in text}
PAIRS = {name: {name: text} for name, text in SINGLE.items() if name not in RIGHT} | {
    folder.name: {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.suffix == ".py"}
    for folder in (HERE / "packages").iterdir()
}


def lines_of(name, text, folder):
    """Return the lines of the reports about shapes in a program."""
    write(folder, {name: text if "typedbatch" in text or "jaxtyping" in text else f"{text}\nimport jaxtyping\n"})
    return {one.line for one in found_in(folder) if one.code in SHAPES}


def test_each_report_is_worded_as_by_the_plugin(tmp_path):
    text = TEXTS["programs"]["fail_shapes.py"]
    write(tmp_path, {"a.py": text})
    assert [(one.line, f"{one.message}  [{one.code}]") for one in found_in(tmp_path)] == list(shown_in(text))


@pytest.mark.parametrize("name", [*TEXTS["right"], *SHIPPED["right"]])
def test_nothing_is_said_of_what_is_right(name, tmp_path):
    assert lines_of(name, (TEXTS["right"] | SHIPPED["right"])[name], tmp_path) == set()


def test_mistakes_are_found_where_they_are(tmp_path):
    missed = set()
    for name, text in {**TEXTS["wrong"], **SHIPPED["wrong"]}.items():
        lines = lines_of(name, text, tmp_path / name.removesuffix(".py"))
        assert lines <= marked(text), name
        if not lines:
            missed.add(name)
    assert missed == NOT_FOUND


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_right_idioms(name, tmp_path):
    assert lines_of(name, RIGHT[name], tmp_path) == set()


@pytest.mark.parametrize("name", PAIRS)
def test_a_mistake_is_found_in_programs_without_sight(name, tmp_path):
    write(tmp_path / "right", {file: right_of(text) for file, text in PAIRS[name].items()})
    write(tmp_path / "wrong", {file: wrong_of(text) for file, text in PAIRS[name].items()})
    assert found_in(tmp_path / "right") == []
    assert [one for one in found_in(tmp_path / "wrong") if one.code in SHAPES]
