"""The command that applies and runs the edits of ``docs/migrations``, on a program of our own."""

from __future__ import annotations

import difflib
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.migrations import __main__ as command
from tests.evidence.migrations import ci, standin
from tests.evidence.migrations.edits import EditError, by_file, counts, edited


def edits_between(before: list[str], after: list[str]) -> str:
    """Return edits in the format of ``diff -n``, computed by difflib."""
    out = []
    for tag, first, last, begin, end in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag in ("delete", "replace"):
            out.append(f"d{first + 1} {last - first}\n")
        if tag in ("insert", "replace"):
            out += [f"a{last} {end - begin}\n", *after[begin:end]]
    return "".join(out)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d3 2\n"]), max_size=8)


@given(LINES, LINES)
def test_edits_turn_one_text_into_the_other(before, after):
    edits = edits_between(before, after)
    assert edited("".join(before), edits) == "".join(after)
    added, deleted = counts("diff -n learn.py\n" + edits)
    assert len(before) + added - deleted == len(after)


@pytest.mark.parametrize("edits", ["d9 1\n", "a9 1\nx\n", "a1 2\nx\n", "x\n", "d3 1\nd1 1\n", "1,2c\nx\n"])
def test_edits_of_another_file_are_an_error(edits):
    with pytest.raises(EditError):
        edited("a\nb\nc\n", edits)


def test_edits_of_several_files_have_a_heading_each(tmp_path):
    edits = "diff -n old.py\nd1 1\ndiff -n new.py\na0 2\ndiff = 1\nprint(diff)\n"
    assert by_file(edits) == {"old.py": "d1 1\n", "new.py": "a0 2\ndiff = 1\nprint(diff)\n"}
    assert counts(edits) == (2, 1)
    (tmp_path / "old.py").write_text("a\nb\n")
    command.apply(edits, tmp_path)
    assert [(tmp_path / name).read_text() for name in ("old.py", "new.py")] == ["b\n", "diff = 1\nprint(diff)\n"]
    with pytest.raises(EditError, match=r"a heading such as diff -n learn\.py is expected, got 'd1 1'"):
        by_file("d1 1\n" + edits)


@pytest.fixture
def checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checkout of the stand-in, whose edits are where those of others are."""
    place = tmp_path / "standin"
    place.mkdir()
    (place / "learn.py").write_text(standin.PROGRAM)
    for line in ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm first"):
        subprocess.run(["git", "-C", str(place), *line.split()], check=True)
    before, after = (text.splitlines(keepends=True) for text in (standin.PROGRAM, standin.MOVED))
    (tmp_path / "standin.edits").write_text("diff -n learn.py\n" + edits_between(before, after))
    monkeypatch.setattr(command, "PAGES", tmp_path)
    monkeypatch.setattr(command, "TIMES", 1)
    return tmp_path


@pytest.mark.release  # mypy checks torch without a cache, which takes a minute
def test_a_program_that_moves_has_the_same_numbers_and_finds_more(checkouts, capsys):
    assert command.show("standin", checkouts)
    printed = capsys.readouterr().out
    assert "standin: typedbatch/standin: +" in printed
    assert "numbers: the same" in printed
    assert 'before: mypy: Name "return_" is not defined' in printed
    assert 'after:  mypy: Samples has no field "return_"; did you mean "returns"?' in printed
    assert "before: mypy says nothing; runs to its end" in printed
    assert "typedbatch.errors.SchemaError: batch is not a Samples (1 problem) batch.returns  shape (8, 1)" in printed


@pytest.mark.slow
def test_a_move_that_changes_numbers_is_not_one(checkouts, capsys):
    moved = standin.MOVED.replace("manual_seed(0)", "manual_seed(1)")
    edits = edits_between(standin.PROGRAM.splitlines(keepends=True), moved.splitlines(keepends=True))
    (checkouts / "standin.edits").write_text("diff -n learn.py\n" + edits)
    assert not command.show("standin", checkouts)
    assert "numbers: DIFFERENT" in capsys.readouterr().out


def test_what_is_not_there_is_named_with_the_way(tmp_path, capsys):
    assert command.show("cleanrl_ppo", tmp_path)
    assert "no checkout; git clone https://github.com/vwxyzjn/cleanrl" in capsys.readouterr().out
    subprocess.run(["git", "init", "-q", str(tmp_path / "cleanrl")], check=True)
    assert command.show("cleanrl_ppo", tmp_path)
    assert "lacks the commit fe8d8a03" in capsys.readouterr().out


@pytest.mark.parametrize("name", command.PROGRAMS)
def test_each_program_has_a_page_and_edits_that_are_some(name):
    edits = (Path(__file__).parents[3] / "docs" / "migrations" / f"{name}.edits").read_text(encoding="utf-8")
    added, deleted = counts(edits)
    page = (Path(__file__).parents[3] / "docs" / "migrations" / "index.md").read_text(encoding="utf-8")
    assert f"{name}.edits" in page
    assert f"+{added} / -{deleted}" in page


@pytest.mark.release  # mypy checks torch without a cache, twice
def test_each_format_reports_a_mistake_in_its_line(checkouts, capsys):
    cells = ci.row("standin", checkouts)
    assert cells is not None
    assert [cells[0], int(cells[1])] == ["standin", len(standin.MOVED.splitlines())]
    assert all(re.fullmatch(r"\d+\.\d s", cell) for cell in cells[2:-1])
    assert cells[-1].startswith("text, github, sarif")
