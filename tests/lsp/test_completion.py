"""Completion of the fields of plain batches, at all kinds of places."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor

pytestmark = pytest.mark.slow

PROGRAM = """\
import numpy as np
from typedbatch import Batch, RolloutBatch


class Learner:
    def __init__(self):
        self.batch = Batch(obs=np.zeros(3), act=np.ones(3))

    def own(self):
        self.batch.rew = np.zeros(3)
        OWN


def made() -> Batch:
    return Batch(obs=np.zeros(3), act=np.ones(3))


def used(flag: bool, given: Batch, record: RolloutBatch, several: list[Batch]):
    batch = Batch(obs=np.zeros(3), act=np.ones(3), info=Batch(t=1))
    if flag:
        batch.rew = np.zeros(3)
    INSIDE


def after(batch):
    return batch.ret
"""
ALL = ["obs", "act", "info", "rew?"]
PLACES = {
    "a statement": ("batch.|", ALL),
    "a name that is begun": ("batch.o|", ALL),
    "a name that is finished": ("batch.obs|", ALL),
    "an assignment": ("x = batch.|", ALL),
    "the target of an assignment": ("batch.| = 1", ALL),
    "a call": ("print(batch.|", ALL),
    "a closed call": ("print(batch.|)", ALL),
    "brackets in brackets": ("print([batch.|", ALL),
    "a condition": ("if batch.|", ALL),
    "a condition with a colon": ("if batch.|:", ALL),
    "a loop": ("for x in batch.|", ALL),
    "a comprehension": ("[one.| for one in batch]", ALL),
    "an operator": ("x = 1 + batch.|", ALL),
    "an operator behind": ("x = batch.| + 1", ALL),
    "return": ("return batch.|", ALL),
    "rows": ("batch[:2].|", ALL),
    "parentheses": ("print(((batch)).|)", ALL),
    "parentheses behind a keyword": ("return (batch ).|", ALL),
    "parentheses right behind a keyword": ("return(batch).|", ALL),
    "a call in two lines": ("x = len(\n        batch).|", []),
    "the result of a call": ("print(batch).|", []),
    "the length in parentheses": ("(len(batch)).|", []),
    "a mask": ("batch[batch.obs > 0].|", ALL),
    "a nested batch": ("batch.info.|", ["t"]),
    "a nested batch in brackets": ('batch["info"].|', ["t"]),
    "a key": ('batch["|', ALL),
    "a key that the editor has closed": ('batch["|"]', ALL),
    "a key that is begun": ('print(batch["o|', ALL),
    "a key in single quotes": ("batch['|']", ALL),
    "a copy": ("batch.copy().|", ALL),
    "a row in a loop": ("for row in batch: row.|", ALL),
    "a lambda": ("f = lambda: batch.|", ALL),
    "an f-string before it": ('print(f"{batch.obs}", batch.|', ALL),
    "a walrus": ("print((b := batch).|", ALL),
}


def offered(editor: Editor, name: str, line: str, mark: str) -> list[str]:
    """Return what is offered at the cursor in a line of the program."""
    indentation = " " * (8 if mark == "OWN" else 4)
    text = PROGRAM.replace(mark, line.replace("|", "")).replace("OWN", "pass").replace("INSIDE", "pass")
    editor.type(name, text)
    return editor.labels(name, f"{indentation}{line}\n")


@pytest.fixture(scope="module")
def name(editor: Editor) -> str:
    """A file that is open."""
    editor.open("places.py", PROGRAM.replace("INSIDE", "pass").replace("OWN", "pass"))
    return "places.py"


@pytest.mark.parametrize("place", PLACES)
def test_the_fields_on_this_line_are_offered(editor, name, place):
    line, expected = PLACES[place]
    assert offered(editor, name, line, "INSIDE") == expected


def test_the_fields_of_an_attribute_are_offered(editor, name):
    assert offered(editor, name, "self.batch.|", "OWN")[:3] == ["obs", "act", "rew"]


def test_of_a_batch_that_is_given_the_fields_of_the_file_are_offered_last(editor, name):
    found = offered(editor, name, "given.x = 1; given.|", "INSIDE")
    assert found[0] == "x"
    assert {"obs?", "act?", "rew?"} <= set(found[1:])


@pytest.mark.parametrize(
    "line", ["record.|", "batch.obs.|", "flag.|", "# batch.|", '"batch.|"', "several.|", "batch|", "1.|"]
)
def test_what_the_other_server_offers_is_not_offered_twice(editor, name, line):
    assert offered(editor, name, line, "INSIDE") == []


def test_other_functions_are_checked_only_where_they_matter(editor):
    """Functions that make the batch are; those of broken text are not."""
    text = """\
from typedbatch import Batch

def one():
    return Batch(obs=1)

def two() -> Batch:
    batch = one()
    batch.act = 2
    return batch

def broken(:
    pass

def three():
    two().
"""
    editor.open("functions.py", text)
    assert editor.labels("functions.py", "    two().|\n")[:2] == ["obs", "act"]
