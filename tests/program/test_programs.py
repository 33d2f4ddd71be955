"""Marked programs: what a run of a program finds in them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.program.helpers import found, found_in, write

PROGRAMS = Path(__file__).parent / "programs"
_MARK = re.compile(r"  # E: (\w+)$")


def marks_of(files: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return the names that are marked, by file and line."""
    return {
        (name, number): mark[1]
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if (mark := _MARK.search(line)) is not None
    }


@pytest.mark.parametrize("path", sorted(PROGRAMS.iterdir()), ids=lambda path: path.stem)
def test_what_is_found_is_what_is_marked(path, tmp_path):
    names = [path] if path.is_file() else sorted(path.rglob("*.py"))
    files = {str(one.relative_to(PROGRAMS)): one.read_text("utf-8") for one in names}
    write(tmp_path, files)
    marks, told = marks_of(files), {}
    for one in found_in(tmp_path):
        key = (str(one.path.relative_to(tmp_path)), one.line)
        assert key not in told or not one.names & {marks.get(key)}, f"twice: {one}"
        told[key] = marks[key] if marks.get(key) in one.names else f"{one.code}: {one.message}"
    assert told == marks


def test_a_report_names_the_call_that_gives_the_batch(tmp_path):
    text = (
        "from typedbatch import Batch\n\n\ndef loss(batch):\n    return batch.adv\n\n\n"
        "loss(Batch(adv=1))\nloss(Batch(obs=1))\n"
    )
    assert found(tmp_path, text) == ['a:5: Batch has no field "adv" in the call at a.py:9; it has obs']
    more = "from a import loss\nfrom typedbatch import Batch\n\nloss(Batch(adv_=1))\n"
    assert found(tmp_path, text.replace("loss(Batch(obs=1))\n", ""), b=more) == [
        'a:5: Batch has no field "adv" in the call at b.py:4; did you mean "adv_"?'
    ]
