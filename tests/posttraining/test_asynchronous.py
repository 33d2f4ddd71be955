"""The example of several turns in two processes: it learns, is its twin with dicts, and ends when one side does."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
MAIN = Path(__file__).parents[2] / "docs" / "examples" / "asynchronous" / "main.py"
TWIN = Path(__file__).with_name("twin_of_asynchronous.py")


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_it_learns_what_the_same_with_dicts_learns(layout):
    done = run(TWIN, layout)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [[0, 60], pytest.param([1, 60, "packed"], marks=pytest.mark.release)])
def test_more_numbers_are_found(arguments):
    done = run(MAIN, *arguments)
    assert done.returncode == 0, done.stderr
    first, *_, last = (int(share) for share in re.findall(r"(\d+)% found", done.stdout))
    assert first < 45
    assert last > 60


def test_as_few_steps_as_the_lag():
    for steps in (1, 2):
        assert run(MAIN, 0, steps).returncode == 0


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ("killed", "the sampler has ended, and this side does not go on without it\nexit code of the sampler: -9"),
        ("raises", "RuntimeError: no games today"),
        ("raises", "the sampler has ended, and this side does not go on without it\nexit code of the sampler: 1"),
        ("floats", "batch.response_ids  dtype float32, expected a signed integer type"),
        ("gap", "not so in 1 of 128 rows: loss_mask is True only where response_mask is, the first at [3]"),
        ("stale", "not so in 128 of 128 rows: policy_step is meta.step or at most 1 less"),
    ],
)
def test_what_goes_wrong_in_the_sampler_ends_the_trainer_with_what_it_is(mistake, text):
    done = run(TWIN, mistake)
    assert done.returncode == 1
    assert text in done.stderr


def test_the_sampler_ends_when_the_trainer_is_killed():
    trainer = subprocess.Popen(
        [sys.executable, str(MAIN), "0", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    assert "step 10" in trainer.stdout.readline()
    trainer.kill()
    _, errors = trainer.communicate()  # which waits until no process has the pipe
    assert "OtherSideEndedError: the trainer has ended, and this side does not go on without it" in errors


def test_a_message_that_cannot_be_read_is_an_error_and_no_wait():
    names = runpy.run_path(str(MAIN.with_name("link.py")))
    here, there = multiprocessing.Pipe()
    link = names["Link"](here, "sampler")
    there.send_bytes(b"not a pickle")
    with pytest.raises(names["OtherSideEndedError"], match="the sampler has ended") as raised:
        link.get()
    assert isinstance(raised.value.__cause__, pickle.UnpicklingError)
