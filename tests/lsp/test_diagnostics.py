"""Diagnostics: of texts that are not saved, of broken texts, and in several files."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor
from typedbatch.cli.check import check

pytestmark = pytest.mark.slow

RIGHT = """\
from typedbatch import Batch

batch = Batch(obs=1, act=2)
print(batch.obs)
"""
WRONG = RIGHT.replace("print(batch.obs)", "print(batch.obz)")
MESSAGE = 'Batch has no field "obz"; did you mean "obs"?'


def messages(found) -> list[str]:
    return [one["message"] for one in found]


def test_a_text_that_is_not_saved_is_checked(editor):
    assert editor.open("unsaved.py", RIGHT) == []
    (found,) = editor.edit("unsaved.py", WRONG)
    assert found["message"] == MESSAGE
    assert found["code"] == "batch-field"
    assert found["source"] == "typedbatch"
    assert found["severity"] == 1
    assert found["codeDescription"]["href"].endswith("/errors/batch-field.html")
    assert found["range"] == {"start": {"line": 3, "character": 6}, "end": {"line": 3, "character": 15}}
    assert editor.edit("unsaved.py", RIGHT) == []


def test_columns_are_those_of_the_client(editor):
    """Which counts characters in UTF-16, while Python counts bytes."""
    (found,) = editor.open("columns.py", WRONG.replace("print(", "print('ä𝄞', "))
    assert found["range"] == {"start": {"line": 3, "character": 13}, "end": {"line": 3, "character": 22}}


def test_mypys_own_errors_are_left_to_others(editor):
    assert editor.open("others.py", "x: int = 'no number'\nimport nowhere\n") == []


def test_functions_without_annotations_are_looked_at(editor):
    text = "from typedbatch import Batch\n\ndef learn():\n    return Batch(obs=1).obz\n"
    assert messages(editor.open("untyped.py", text)) == [MESSAGE]


def test_a_line_that_cannot_be_read_yet_hides_no_other(editor):
    editor.open("broken.py", WRONG)
    for line in ("print(", "if batch.obs", "def f(:", "x = [1, 2", '"""', "batch.obs[", "    x", "class A:", "@"):
        assert messages(editor.edit("broken.py", f"{WRONG}{line}\n")) == [MESSAGE], line
    for line in ("print(", "def f(:", "x = )"):
        text = WRONG.replace("batch = Batch", f"{line}\nbatch = Batch")
        assert messages(editor.edit("broken.py", text)) == [MESSAGE], line


def test_a_file_on_disk_that_cannot_be_read_stops_no_other(editor):
    (editor.folder / "unreadable.py").write_text("def f(:\n  ]]]\n", "utf-8")
    (editor.folder / "null.py").write_bytes(b"x = 1\x00\xff\n")
    (editor.folder / "utf16.py").write_bytes("x = 1\n".encode("utf-16"))
    (editor.folder / "codec.py").write_bytes(b"# -*- coding: nonsense -*-\n")
    (editor.folder / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nÄ = 1\n".encode("latin-1"))
    names = ("unreadable", "null", "utf16", "codec", "latin")
    changes = [{"uri": editor.uri(f"{name}.py"), "type": 1} for name in names]
    editor.notify("workspace/didChangeWatchedFiles", {"changes": changes})
    imports = f"import {', '.join(names)}"
    assert messages(editor.open("readable.py", f"{imports}\n{WRONG}")) == [MESSAGE]


def test_an_edit_is_seen_in_files_that_import_it(editor):
    made = "from typedbatch import Batch\n\ndef make() -> Batch:\n    return Batch(obs=1)\n"
    editor.open("maker.py", made)
    using = "from maker import make\n\nprint(make().obs)\n"
    assert editor.open("using.py", using) == []
    before = editor.published.get(editor.uri("using.py"), 0)
    editor.type("maker.py", made.replace("obs=1", "rew=1"))
    (found,) = editor.after("using.py", before)
    assert found["message"] == 'Batch has no field "obs"; it has rew'


def test_what_a_run_of_the_program_finds_follows_edits_of_other_files(editor):
    made = "from typedbatch import Batch\n\nclass Source:\n    batch = None\n"
    made += "    def draw(self):\n        self.batch = Batch(obs=1)\n"
    using = "from source_of_run import Source\n\nsource = Source()\nsource.draw()\nprint(source.batch.obs)\n"
    editor.open("source_of_run.py", made)
    assert editor.open("using_source.py", using) == []
    before = editor.published.get(editor.uri("using_source.py"), 0)
    editor.type("source_of_run.py", made.replace("obs=1", "rew=1"))
    assert messages(editor.after("using_source.py", before)) == ['Batch has no field "obs"; it has rew']


def test_a_file_that_is_closed_is_checked_as_it_is_on_disk(editor):
    (editor.folder / "closed.py").write_text(RIGHT, "utf-8")
    editor.open("closed.py")
    assert messages(editor.edit("closed.py", WRONG)) == [MESSAGE]
    before = editor.published[editor.uri("closed.py")]
    editor.close("closed.py")
    assert editor.after("closed.py", before) == []


def test_a_file_that_another_program_writes_is_checked(editor):
    made = editor.folder / "written.py"
    made.write_text("from typedbatch import Batch\n\ndef make() -> Batch:\n    return Batch(obs=1)\n", "utf-8")
    editor.open("reader.py", "from written import make\n\nprint(make().obs)\n")
    before = editor.published[editor.uri("reader.py")]
    made.write_text(made.read_text("utf-8").replace("obs=1", "rew=1"), "utf-8")
    change = {"uri": editor.uri("written.py"), "type": 2}
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [change]})
    assert messages(editor.after("reader.py", before)) == ['Batch has no field "obs"; it has rew']


def test_a_comment_that_ignores_an_error_holds(editor):
    assert editor.open("ignored.py", WRONG.replace("obz)", "obz)  # type: ignore[batch-field]")) == []


def test_the_editor_and_the_command_say_the_same(editor, tmp_path):
    program = """\
import numpy as np
from jaxtyping import Float
from typedbatch import Batch, ObsBatchProtocol

def use(batch: ObsBatchProtocol) -> None: ...

def learn(obs: Float[np.ndarray, "N T"], flag: bool):
    batch = Batch(act=np.zeros(3))
    use(batch)
    if flag:
        batch.rew = 1
    batch.rew
    obs @ obs
    return batch.azt
"""
    (tmp_path / "same.py").write_text(program, "utf-8")
    checked = check(folder=tmp_path)
    found = editor.open("same.py", program)
    assert [(one["range"]["start"]["line"] + 1, one["code"], one["message"]) for one in found] == [
        (one.line, one.code, one.message) for one in checked.found
    ]
    assert len(found) == 4


def test_settings_hold(tmp_path):
    (tmp_path / "mypy.ini").write_text("[mypy]\nexclude = left_out\n[typedbatch-mypy]\nshapes = false\n", "utf-8")
    editor = Editor(tmp_path.resolve())
    text = 'from jaxtyping import Float\nfrom numpy import ndarray\ndef f(x: Float[ndarray, "N T"]):\n    x @ x\n'
    assert editor.open("shapes.py", text) == []
    assert editor.open("left_out.py", WRONG) == []
    before = dict(editor.published)
    (tmp_path / "mypy.ini").write_text("[mypy]\n", "utf-8")
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": editor.uri("mypy.ini"), "type": 2}]})
    assert len(editor.after("shapes.py", before[editor.uri("shapes.py")])) == 1
    assert messages(editor.after("left_out.py", before[editor.uri("left_out.py")])) == [MESSAGE]
    assert editor.stop() == 0
