"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow
pytest_plugins = ["pytester"]

PIPELINE = """
import numpy as np
from typing import Annotated
from numpy.typing import NDArray
from typedbatch import Batch, BatchRecord, Finite, checked, validate
class Rollout(BatchRecord):
    rew: Annotated[NDArray[np.floating], Finite]
@checked
def learn(batch: Rollout): ...
def plain(batch: Rollout): ...
same = checked(plain) is plain
"""
TESTS = """
import numpy as np
import pipeline
from pipeline import Batch, learn
def test_infinite():
    learn(Batch(rew=np.array([np.inf])))
def test_wrong():
    learn(Batch())
def test_decorated_early():
    assert not pipeline.same
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(pipeline=PIPELINE, test_it=TESTS, conftest="import pipeline")
    return pytester


@pytest.mark.parametrize(
    ("arguments", "failed"),
    [
        ([], ["test_wrong"]),
        (["--typedbatch=structure"], ["test_wrong"]),
        (["--typedbatch=values"], ["test_infinite", "test_wrong"]),
        (["--typedbatch=off"], ["test_decorated_early"]),
        (["--typedbatch=values", "-n2"], ["test_infinite", "test_wrong"]),
    ],
    ids=" ".join,
)
def test_the_level_of_a_run(project: pytest.Pytester, arguments: list[str], failed: list[str]):
    result = project.runpytest_subprocess(*arguments, "-rf")
    assert sorted(line.split("::")[1].split()[0] for line in result.outlines if line.startswith("FAILED")) == failed
    levels = [one.partition("=")[2] for one in arguments if one.startswith("--typedbatch")]
    assert [line for line in result.outlines if line.startswith("typedbatch: ")] == [
        f"typedbatch: {level}" for level in levels if level != "structure"
    ]


def test_a_level_that_does_not_exist(project: pytest.Pytester):
    result = project.runpytest_subprocess("--typedbatch=vlaues")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--typedbatch is 'vlaues'; the levels are 'off', 'structure', 'values'"])


def test_it_is_in_the_help(pytester: pytest.Pytester):
    pytester.runpytest_subprocess("--help").stdout.fnmatch_lines(["typedbatch:", "*--typedbatch=LEVEL*"])


EQUAL = """
import numpy as np
import torch
from typedbatch import Batch
def test_fields():
    a = Batch(obs=Batch(cam=np.zeros((2, 3)), pos=[1, 2]), act=[1, 2, 3, 4], rew=torch.zeros(2), note="a", left=None)
    b = Batch(obs=Batch(cam=np.zeros((2, 3), "f4"), pos=[1, 2]), act=[1, 5, 3, 9], rew=torch.ones(3), note="b", right=1)
    assert a == b
def test_values():
    assert Batch(x=[1.0, np.nan], y=np.array([None, "b"]), z=2) == Batch(x=[1.0, np.nan], y=np.array([None, "c"]), z=3)
def test_equal_but_for_nothing():
    assert Batch(x=[1]) != Batch(x=[1])
def test_other_things():
    assert Batch(x=[1]) == 5
"""


def test_what_a_failed_comparison_says(pytester: pytest.Pytester):
    pytester.makepyfile(EQUAL)
    printed = [line for line in pytester.runpytest_subprocess("-n0").outlines if line.startswith("E   ")]
    assert [line[1:].strip().removeprefix("AssertionError: ") for line in printed][:11] == [
        "assert Batch == Batch, but for 6 fields:",
        "obs.cam  f64[2,3] != f32[2,3]",
        "act      2 of 4 values differ, the first at [1]: 2 != 5, at most 5 apart",
        "rew      torch f32[2] != torch f32[3]",
        "note     'a' != 'b'",
        "left     only on the left: None",
        "right    only on the right: i64[]",
        "assert Batch == Batch, but for 3 fields:",
        "x  1 of 2 values differs, the first at [1]: nan != nan; nan is not equal to nan, see allclose(equal_nan=True)",
        "y  1 of 2 values differs, the first at [1]: 'b' != 'c'",
        "z  the value differs: 2 != 3",
    ]
