"""Hover, shapes beside names, definitions of fields, and what is shown of those that are offered."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """\
import numpy as np
from jaxtyping import Float
from torch import Tensor
from typedbatch import Batch


def collect(flag: bool, obs: Float[Tensor, "N 4"], rest: Batch) -> Batch:
    batch = Batch(obs=obs, act=np.zeros(8, dtype=np.int64), info=Batch(t=np.arange(8)))
    if flag:
        batch.adv = batch.obs.mean(-1)
    shifted = batch.obs[:, :-1]
    part = batch[:4]
    part.rew = shifted[0]
    print(part["act"], part.info.t, rest.ret)
    batch["ä"] = part.rew
    return batch
"""


@pytest.fixture(scope="module")
def name(editor):
    editor.open("shown.py", PROGRAM)
    return "shown.py"


def test_hovering_a_batch_shows_the_fields_on_this_line(editor, name):
    assert editor.hover(name, "    bat|ch = Batch(") == (
        "```python\n(batch) Batch\n"
        "    obs   Tensor floats (N, 4)\n"
        "    act   ndarray int64 (8,)\n"
        "    info  Batch\n"
        "        t  ndarray integers (8,)\n"
        "```"
    )


def test_a_field_of_some_branches_has_a_question_mark(editor, name):
    found = editor.hover(name, "shifted = bat|ch.obs")
    assert "    adv?  Tensor floats (N,)" in found
    assert found.endswith("`?`: set on some of the ways to this line")


def test_a_batch_that_is_given_may_have_other_fields(editor, name):
    assert editor.hover(name, "re|st.ret") == ""
    assert editor.hover(name, "return bat|ch").count("...") == 0


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("shifted = batch.o|bs[", "obs: Tensor floats (N, 4)"),
        ('print(part["a|ct"]', "act: ndarray int64 (4,)"),
        ("part.info.|t, rest", "t: ndarray integers (4,)"),
        ("part.re|w = shifted", "rew: Tensor floats (3,)"),
        ("part.in|fo.t", "info: Batch\n    t  ndarray integers (4,)"),
    ],
)
def test_hovering_a_field_shows_kind_dtype_and_shape(editor, name, marked, expected):
    assert editor.hover(name, marked) == f"```python\n(field) {expected}\n```"


def test_hovering_an_array_shows_its_shape(editor, name):
    assert editor.hover(name, "= shif|ted[0]") == "```python\n(array) Tensor floats (N, 3)\n```"


@pytest.mark.parametrize("marked", ["re|turn batch", "def col|lect", "fl|ag: bool", "import num|py"])
def test_nothing_is_shown_of_other_things(editor, name, marked):
    assert editor.hover(name, marked) == ""


def test_shapes_stand_beside_the_names_that_are_bound(editor, name):
    assert editor.hints(name) == ["11: (N, 3)"]


def test_shapes_follow_an_edit(editor):
    editor.open("edited.py", PROGRAM)
    editor.edit("edited.py", PROGRAM.replace("[:, :-1]", "[:, :2].T"))
    assert editor.hints("edited.py") == ["11: (2, N)"]


@pytest.mark.parametrize(
    ("marked", "line"),
    [
        ("shifted = batch.o|bs[", 8), ('print(part["a|ct"]', 8), ("part.info.|t, rest", 8), ('["ä"] = part.r|ew', 13),
    ],
)  # fmt: skip
def test_the_definition_of_a_field_is_the_line_that_sets_it(editor, name, marked, line):
    assert editor.definition(name, marked) == [f"shown.py:{line}"]


def test_the_definition_of_a_field_of_a_given_batch_is_where_others_set_it(editor):
    editor.open("sets.py", "from typedbatch import Batch\n\nbatch = Batch(ret=1)\nbatch.returned = 2\n")
    editor.open("gets.py", "from typedbatch import Batch\n\ndef f(batch: Batch) -> None:\n    print(batch.returned)\n")
    assert editor.definition("gets.py", "batch.retu|rned") == ["sets.py:4"]


def test_other_names_have_no_definition_here(editor, name):
    assert editor.definition(name, "def col|lect") == []


def test_a_field_is_offered_with_its_kind_dtype_and_shape(editor):
    made = "Batch(obs=torch.arange(12).view(3, 4), info=Batch(t=1))"
    text = f"import torch\nfrom typedbatch import Batch\n\nbatch = {made}\nbatch\n"
    editor.open("kinds.py", text)
    editor.type("kinds.py", text.replace("batch\n", "batch.\n"))
    found = editor.complete("kinds.py", "\nbatch.|\n")
    assert [(one["label"], one["labelDetails"]["description"]) for one in found] == [
        ("obs", "Tensor int64 (3, 4)"),
        ("info", "Batch(t)"),
    ]
