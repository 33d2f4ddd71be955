"""The example of a stream between two producers and two consumers, which learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "examples" / "grpo" / "streamed.py"


@pytest.mark.slow
def test_the_reward_rises():
    done = subprocess.run([sys.executable, str(PROGRAM), "0", "25"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rewards = [float(reward) for reward in re.findall(r"mean reward ([\d.]+)", done.stdout)]
    assert rewards[-1] > rewards[0] + 0.3
