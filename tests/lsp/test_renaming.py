"""Renaming a field in a project."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor, RefusedError

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path):
    editor = Editor(tmp_path.resolve())
    yield editor
    editor.kill()


MAKER = '''\
from typedbatch import Batch


def make() -> Batch:
    """Make a batch with a rew."""
    batch = Batch(obs=1, rew=2)
    batch.rew = batch["rew"] + 1
    batch.update(rew=3)
    return batch if "rew" in batch else batch
'''
USER = """\
from maker import make


class Other:
    rew = 1


batch = make()
print(batch.rew, Other().rew, batch.pop("rew"))
"""


def test_a_field_is_renamed_in_the_project(project):
    (project.folder / "maker.py").write_text(MAKER, "utf-8")
    (project.folder / "user.py").write_text(USER, "utf-8")
    project.open("user.py")
    made = project.apply(project.rename("user.py", "print(batch.r|ew", "reward"))
    assert made["maker.py"] == MAKER.replace('"rew"', '"reward"').replace("rew=", "reward=").replace(
        ".rew ", ".reward "
    )
    assert made["user.py"] == USER.replace("batch.rew", "batch.reward").replace('"rew"', '"reward"')


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("def f(x): return x.rew", "may or may not mean the field: other.py:1"),
        ("x = {'rew': 1}", "may or may not mean the field: other.py:1"),
        ("x = getattr(make(), 'rew')\n", "may or may not mean the field: other.py:1"),
        ("f(rew=1)", "may or may not mean the field: other.py:1"),
        (
            "from typedbatch import BatchRecord\nclass Own(BatchRecord):\n    rew: int",
            "may or may not mean the field: other.py:2",
        ),
        ("print(rew\nx = 1", "may or may not mean the field: other.py"),
        (")\n" * 20 + "rew", "may or may not mean the field: other.py"),
        ("from typedbatch import Batch\nprint(Batch(reward=1))", 'a batch has a field "reward" already: other.py:2'),
    ],
)
def test_a_renaming_that_is_not_certain_is_refused(project, line, why):
    (project.folder / "maker.py").write_text(MAKER, "utf-8")
    (project.folder / "user.py").write_text(USER, "utf-8")
    (project.folder / "other.py").write_text(line, "utf-8")
    project.open("user.py")
    with pytest.raises(RefusedError) as error:
        project.rename("user.py", "print(batch.r|ew", "reward")
    assert why in str(error.value)


@pytest.mark.parametrize("new", ["1", "class", "a b", "shape", ""])
def test_a_name_that_no_field_can_have_is_refused(editor, new):
    name = f"names{abs(hash(new))}.py"
    editor.open(name, "from typedbatch import Batch\n\nbatch = Batch(obs=1)\nprint(batch.obs)\n")
    with pytest.raises(RefusedError, match="cannot be the name of a field"):
        editor.rename(name, "print(batch.o|bs)", new)


def test_only_fields_can_be_renamed(editor):
    editor.open("only.py", "from typedbatch import Batch\n\nbatch = Batch(obs=1)\nprint(batch.obs)\n")
    place = editor.at("only.py", "print(batch.o|bs)")
    found = editor.request("textDocument/prepareRename", place)
    assert found["placeholder"] == "obs"
    assert found["range"] == {"start": {"line": 3, "character": 12}, "end": {"line": 3, "character": 15}}
    assert editor.request("textDocument/prepareRename", editor.at("only.py", "pri|nt(")) is None
