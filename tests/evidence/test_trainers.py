"""The command that audits public trainers, without their checkouts."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.evidence.trainers.__main__ import TRAINERS

ROOT = Path(__file__).parents[2]


def test_a_checkout_that_is_missing_is_named_with_its_address(tmp_path: Path) -> None:
    (tmp_path / "cleanrl").mkdir()  # which has none of its files
    command = [sys.executable, "-m", "tests.evidence.trainers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 or "cleanrl" in done.stdout, done.stderr
    for name, (repository, commit) in TRAINERS.items():
        assert find_spec(f"tests.evidence.trainers.{name}") is not None
        if name != "cleanrl":
            assert f"{name}: no checkout; git clone https://github.com/{repository}" in done.stdout
            assert f"at {commit}" in done.stdout


def test_a_trainer_without_a_driver_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.evidence.trainers", str(tmp_path), "nanogpt"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "there is no driver of nanogpt" in done.stderr
