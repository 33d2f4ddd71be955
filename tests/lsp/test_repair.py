"""Texts that are being typed, made readable."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from typedbatch._lsp.documents import of_cells
from typedbatch._lsp.repair import cursor_at, repaired, tree_of

PROGRAM = (Path(__file__).parents[2] / "docs" / "examples" / "ppo.py").read_text("utf-8")


@given(
    st.integers(0, len(PROGRAM)), st.sampled_from(["(", "[", "{", '"', '"""', ":", "def ", ".", ",", "=", "\\", "\t"])
)
def test_a_text_in_which_something_is_typed_is_readable(at, typed):
    text = PROGRAM[:at] + typed + PROGRAM[at:]
    found = repaired(text)
    if found is not None:
        tree_of(found.text)
        assert found.text.count("\n") == text.count("\n")
        before, after = text.split("\n"), found.text.split("\n")
        assert {at + 1 for at, line in enumerate(before) if line != after[at]} <= found.lines


@given(st.text(max_size=200))
def test_any_text_is_readable_or_given_up(text):
    found = repaired(text)
    if found is not None:
        tree_of(found.text)


@given(st.text(alphabet="ab.[(\"' \n:=#)", max_size=60), st.integers(1, 9), st.integers(0, 20))
def test_a_cursor_anywhere_has_a_readable_text_or_none(text, line, column):
    found = cursor_at(text, line, column)
    if found is not None:
        tree_of(found.text)
        assert 0 < found.column <= len(found.text.split("\n")[line - 1])


def test_lines_that_are_not_python_do_nothing_in_a_cell():
    cells = [
        ("a", "%time x\n  !ls\nx = !ls\ny = %time\nhelp?\nx.y??\nz = 1 % 2"),
        ("b", "%%html\n<b>"),
        ("c", "%%time\nw"),
    ]
    assert of_cells("n", cells).text == "pass\n  pass\npass\npass\npass\npass\nz = 1 % 2\n\n\npass\nw"
