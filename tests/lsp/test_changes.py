"""Changes: a slip that is corrected, fields that are declared as a record, a field that is renamed."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor, RefusedError

pytestmark = pytest.mark.slow


def actions(editor: Editor, name: str, marked: str) -> dict[str, object]:
    return {one["title"]: one["edit"] for one in editor.actions(name, marked)}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("print(batch.obz)", "print(batch.obs)"),
        ('x = batch["obz"] + 1', 'x = batch["obs"] + 1'),
        ("'ä', batch.obz", "'ä', batch.obs"),
    ],
)
def test_a_slip_is_corrected(editor, wrong, right):
    text = f"from typedbatch import Batch\n\nbatch = Batch(obs=1, act=2)\n{wrong}\n"
    name = f"slip{abs(hash(wrong))}.py"
    editor.open(name, text)
    marked = wrong.replace("obz", "ob|z")
    assert editor.apply(actions(editor, name, marked)['Change "obz" to "obs"'])[name] == text.replace(wrong, right)


def test_where_no_name_is_near_there_is_no_correction(editor):
    editor.open("far.py", "from typedbatch import Batch\n\nbatch = Batch(obs=1)\nprint(batch.something)\n")
    assert not any(one.startswith("Change") for one in actions(editor, "far.py", "batch.some|thing"))


RECORD = '''\
"""A program."""

from typedbatch import Batch
import numpy as np
import torch


def step(flag: bool):
    rollout_batch = Batch(obs=np.zeros(3), act=torch.zeros(3), info=Batch(t=1), note="x")
    if flag:
        rollout_batch.rew = np.ones(3)
    return rollout_batch
'''
DECLARED = '''\
"""A program."""

from typedbatch import Batch
import numpy as np
import torch
from typedbatch import BatchRecord
from numpy.typing import NDArray
from torch import Tensor
from typing import Any


class Info(BatchRecord):
    t: Any


class RolloutBatch(BatchRecord):
    obs: NDArray[np.float64]
    act: Tensor
    info: Info
    note: Any


def step(flag: bool):
    rollout_batch = RolloutBatch(obs=np.zeros(3), act=torch.zeros(3), info=Info(t=1), note="x")
'''


def test_fields_are_declared_as_a_record(editor):
    editor.open("record.py", RECORD)
    edit = actions(editor, "record.py", "rollout_batch = Bat|ch(obs")["Declare these fields as the record RolloutBatch"]
    assert editor.apply(edit)["record.py"].startswith(DECLARED)


def test_a_field_that_may_be_missing_is_declared_with_a_default(editor):
    editor.open("optional.py", RECORD)
    edit = actions(editor, "optional.py", "return rollout|_batch")["Declare these fields as the record RolloutBatch"]
    text = editor.apply(edit)["optional.py"]
    assert "    rew: NDArray[np.float64] | None = None\n" in text
    compile(text, "optional.py", "exec")


def test_shapes_are_declared_where_the_file_declares_some(editor):
    text = """\
from jaxtyping import Float
from torch import Tensor
from typedbatch import Batch

def f(x: Float[Tensor, "N T 4"]):
    batch = Batch(obs=x, first=x[:, 0], next=x[:, 1:])
    return batch
"""
    editor.open("shapes.py", text)
    edit = actions(editor, "shapes.py", "return bat|ch")["Declare these fields as the record Step"]
    made = editor.apply(edit)["shapes.py"]
    assert (
        '    obs: Float[Tensor, "N T 4"]\n    first: Float[Tensor, "N 4"]\n    next: Float[Tensor, "N T-1 4"]\n' in made
    )


@pytest.mark.parametrize("marked", ["flag: bo|ol", "import nu|mpy", "np.ze|ros(3), act"])
def test_elsewhere_no_record_is_offered(editor, marked):
    name = f"elsewhere{abs(hash(marked))}.py"
    editor.open(name, RECORD)
    found = actions(editor, name, marked)
    assert not found or list(found) == ["Declare these fields as the record RolloutBatch"]


@pytest.fixture
def project(cache, python, tmp_path):
    editor = Editor(tmp_path.resolve(), cache, python)
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
