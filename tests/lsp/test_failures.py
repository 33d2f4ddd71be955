"""A worker that dies or hangs, and an editor that goes away."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.cli.test_check import odd_files, shadows
from tests.lsp.client import Editor, RefusedError
from tests.lsp.processes import children_of, group_of, wait

pytestmark = pytest.mark.slow

TEXT = "from typedbatch import Batch\n\nbatch = Batch(obs=1)\nprint(batch.obs)\n"
WRONG = TEXT.replace("print(batch.obs)", "print(batch.obz)")


@pytest.fixture
def own(tmp_path):
    """An editor of a test's own, whose worker counts as hung after some seconds."""
    editor = Editor(tmp_path.resolve(), {"limit": 15.0})
    yield editor
    editor.kill()


def worker_of(editor: Editor) -> int:
    """Return the process of the worker."""
    (child,) = children_of(editor.pid)
    return child


def test_a_worker_that_dies_is_said_once_and_starts_again(own):
    own.open("a.py", TEXT)
    os.kill(worker_of(own), signal.SIGKILL)
    assert [one["code"] for one in own.edit("a.py", WRONG)] == ["batch-field"]
    os.kill(worker_of(own), signal.SIGKILL)
    assert own.edit("a.py", TEXT) == []
    (said,) = own.shown()
    assert said == f"typedbatch: the check of {own.folder.name} has failed (the worker has ended), and starts again"


def test_a_worker_that_hangs_is_ended_and_starts_again(own):
    own.open("a.py", TEXT)
    os.kill(worker_of(own), signal.SIGSTOP)
    assert [one["code"] for one in own.edit("a.py", WRONG)] == ["batch-field"]
    assert own.shown() == [
        f"typedbatch: the check of {own.folder.name} has failed (no answer within 15 s), and starts again"
    ]


def test_a_question_to_a_dead_worker_has_an_empty_answer(own):
    own.open("a.py", TEXT)
    os.kill(worker_of(own), signal.SIGKILL)
    assert own.hover("a.py", "print(bat|ch") in ("", own.hover("a.py", "print(bat|ch"))
    own.wait(lambda: own.published[own.uri("a.py")] > 1)
    assert "obs" in own.hover("a.py", "print(bat|ch")


def test_the_worker_ends_with_the_server(own):
    own.open("a.py", TEXT)
    worker = worker_of(own)
    own.kill()
    wait(lambda: group_of(worker) == [])


def test_many_edits_at_once_end_in_the_last_one(own):
    own.open("a.py", TEXT)
    for number in range(50):
        own.type("a.py", f"{TEXT}x{number} = batch.obz\n")
    before = own.published[own.uri("a.py")]
    own.type("a.py", WRONG)
    own.wait(lambda: len(own.diagnostics[own.uri("a.py")]) == 1 and own.published[own.uri("a.py")] > before)
    (found,) = own.diagnostics[own.uri("a.py")]
    assert found["range"]["start"]["line"] == 3
    assert own.published[own.uri("a.py")] < 20


def test_edits_of_odd_places_are_answered(own):
    own.open("a.py", TEXT)
    place = {"textDocument": {"uri": own.uri("a.py")}, "position": {"line": 10**6, "character": 10**6}}
    for line, character in [
        (10**6, 10**6),
        (0, 10**6),
        (10**6, 0),
        (4, 0),
        (-1, 0),
        (0, -1),
        (2**40, 2**40),
        (-(2**40), 0),
    ]:
        place["position"] = {"line": line, "character": character}
        whole = {"range": {"start": place["position"], "end": place["position"]}, "context": {"diagnostics": []}}
        for method in ("completion", "hover", "definition", "prepareRename"):
            assert not own.request(f"textDocument/{method}", place)
        for method in ("inlayHint", "codeAction"):
            assert own.request(f"textDocument/{method}", {**place, **whole}) == []
    place["position"] = {"line": "first", "character": None}
    with pytest.raises(RefusedError, match="Invalid Params"):
        own.request("textDocument/hover", place)
    other = {"textDocument": {"uri": own.uri("never_opened.py")}, "position": {"line": 0, "character": 0}}
    for method in ("completion", "hover", "definition", "prepareRename"):
        assert not own.request(f"textDocument/{method}", other)
    untitled = {"uri": "untitled:Untitled-1", "languageId": "python", "version": 1, "text": WRONG}
    own.notify("textDocument/didOpen", {"textDocument": untitled})
    assert [one["code"] for one in own.edit("a.py", WRONG)] == ["batch-field"]
    for text in ("", "\n", "\x00", "\ufeff" + WRONG, WRONG.replace("\n", "\r\n"), "é" * 1000, "\ud800"):
        own.type("a.py", text)
    assert [one["code"] for one in own.edit("a.py", WRONG)] == ["batch-field"]
    assert own.stop() == 0


def test_halves_of_characters_are_read(own):
    for before, behind in [("", "'\ud83d'"), ("", "# \udc80"), ("'\ud83d'; ", "'\udcff'")]:
        text = WRONG.replace("print", f"{before}print") + behind + "\n"
        (found,) = own.edit("a.py", text) if own.published else own.open("a.py", text)
        assert found["range"]["start"] == {"line": 3, "character": 6 + len(before)}
        assert "obs" in own.hover("a.py", "print(bat|ch")
        assert own.labels("a.py", "print(batch.|obz)") == ["obs"]


@pytest.mark.parametrize("count", [8_000, 30_000])
def test_a_long_sum_costs_no_findings_but_its_own(own, count):
    text = f"{WRONG}x = {' + '.join(['1'] * count)}\n"
    assert [one["code"] for one in own.open("a.py", text)] == ["batch-field"]
    assert [one["code"] for one in own.edit("a.py", f"{text}batch.act\n")] == ["batch-field"] * 2


def test_no_file_of_the_folder_is_run_or_waited_for(own):
    shadows(
        own.folder, {*sys.stdlib_module_names, "mypy", "pygls", "sitecustomize"} - {"socket"}
    )  # one of the odd files
    odd_files(own.folder)
    (own.folder / "a.py").write_text(f"import pipe, large\n{WRONG}", "utf-8")
    assert [one["code"] for one in own.open("a.py")] == ["batch-field"]
    assert list(own.folder.glob("ran *")) == []
    assert own.shown() == []


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_it_ends_in_silence_while_it_reads(tmp_path, says_goodbye):
    with (tmp_path / "errors").open("w+b") as errors:
        editor = Editor(tmp_path.resolve(), stderr=errors)
        editor.open_only("a.py", TEXT)
        assert editor.request("textDocument/completion", editor.at("a.py", "print(batch.|obs)")) == {
            "isIncomplete": True,
            "items": [],
        }
        if says_goodbye:
            editor.request("shutdown", None)
        editor.notify("exit", None)
        assert editor.ended() == (0 if says_goodbye else 1)
        errors.seek(0)
        assert errors.read() == b""
