"""Notes of a run: shapes under ``reveal_type``, and names of sizes that stand once."""

from __future__ import annotations

from tests.program.helpers import write
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of

PROGRAM = """\
from typing import Optional
import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

def scores(q: Float[ndarray, "B T Head"], k: Float[ndarray, "B S Heads"]) -> Float[ndarray, "B T S"]:
    return q @ k.mT

def rows(x: Float[ndarray, "*batch N"], y: "Optional[Float[ndarray, 'N']]" = None) -> Float[ndarray, "*batch"]:
    first: Float[ndarray, "*batch N"] = x.copy()
    return first.sum(-1)

def shown(x: Float[Tensor, "B T"], text: str) -> None:
    reveal_type(x.T)
    reveal_type(x[:, 1:].long())
    reveal_type(text)
"""


def notes_of(folder, *, unused_sizes):
    write(folder, {"a.py": PROGRAM})
    return [
        (one.line, one.message)
        for program in programs_of(files_in(folder))
        for one in run(program, unused_sizes=unused_sizes).notes
    ]


def test_shapes_are_noted_where_the_program_asks(tmp_path):
    assert notes_of(tmp_path, unused_sizes=False) == [
        (16, "Shape is (T, B), floats"),
        (17, "Shape is (B, T-1), int64"),
    ]


def test_names_that_stand_once_are_noted_if_one_asks(tmp_path):
    found = [text for line, text in notes_of(tmp_path, unused_sizes=True) if "stands once" in text]
    assert found == [
        'Size "Head" stands once in scores, so it says nothing of any other; did you mean "Heads"?',
        'Size "Heads" stands once in scores, so it says nothing of any other; did you mean "Head"?',
        'Size "B" stands once in shown, so it says nothing of any other',
        'Size "T" stands once in shown, so it says nothing of any other',
    ]
