"""mypy in the background: what types alone show, beside what the run finds."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.lsp.client import Editor
from tests.lsp.processes import children_of, group_of, wait

pytestmark = pytest.mark.slow

TEXT = """\
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typedbatch import Batch, BatchProtocol, BatchRecord


class Floats(BatchRecord):
    obs: NDArray[np.float32]


class Ints(BatchProtocol, Protocol):
    @property
    def obs(self) -> NDArray[np.int64]: ...


def use(step: Ints) -> None: ...


def learn(step: Floats) -> None:
    use(step)
    Batch(act=1).obs
"""
RUN, TYPES = ["batch-field"], ["batch-argument"]


def codes(editor: Editor, name: str) -> list[str]:
    return [one["code"] for one in editor.diagnostics.get(editor.uri(name), [])]


@pytest.fixture
def editor(tmp_path, kept, without_torch):
    """An editor in which mypy runs."""
    options = {"types": True, "python": str(without_torch), "cache": str(kept / "lsp")}
    (tmp_path / "a.py").write_text(TEXT, "utf-8")
    editor = Editor(tmp_path.resolve(), options)
    yield editor
    editor.kill()


def test_what_mypy_finds_is_added_for_texts_that_are_saved(editor):
    editor.open("a.py")
    assert codes(editor, "a.py") == RUN
    editor.wait(lambda: codes(editor, "a.py") == RUN + TYPES)
    editor.edit("a.py", TEXT.replace("act=1", "rew=1"))
    assert codes(editor, "a.py") == RUN
    editor.save("a.py")
    editor.wait(lambda: codes(editor, "a.py") == RUN + TYPES)


def test_a_text_that_is_not_saved_has_no_findings_of_types(editor):
    editor.open("a.py", f"\n{TEXT}")
    (editor.folder / "b.py").write_text(TEXT, "utf-8")
    editor.open("b.py")
    editor.wait(lambda: codes(editor, "b.py") == RUN + TYPES)
    assert codes(editor, "a.py") == RUN


def test_a_mypy_that_fails_is_logged_and_hides_nothing(editor):
    (editor.folder / "mypy.ini").write_text("[mypy]\nplugins = nowhere.at_all\n", "utf-8")
    editor.open("a.py")
    editor.wait(lambda: any("types are not checked" in one["params"]["message"] for one in editor.logged()))
    assert codes(editor, "a.py") == RUN
    assert editor.shown() == []


def test_one_mypy_runs_at_a_time_and_ends_with_the_server(editor):
    editor.open("a.py")
    for _ in range(20):
        editor.save("a.py")
        time.sleep(0.02)
    workers = children_of(editor.pid)
    assert len(workers) == 2
    editor.kill()
    wait(lambda: not any(map(group_of, workers)))


def test_mypy_is_not_imported_by_the_server_and_the_worker():
    for path in (Path(__file__).parents[2] / "typedbatch" / "_lsp").glob("*.py"):
        text = path.read_text("utf-8")
        assert not re.search(r"(import|from) (typedbatch\.)?mypy\b", text), path
