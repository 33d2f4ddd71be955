"""Changes: a slip that is corrected, and fields that are declared as a record."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor

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
