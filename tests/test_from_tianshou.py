"""The programs of docs/from_tianshou.md: each pair does the same, and the page shows how they differ."""

from __future__ import annotations

import difflib
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tianshou.data as ts
import torch

import typedbatch

pytestmark = pytest.mark.slow
ROOT = Path(typedbatch.__file__).parent.parent
PROGRAMS = ROOT / "docs" / "examples" / "tianshou"
NAMES = ("dqn", "ppo", "cloning")
PAGE = (ROOT / "docs" / "from_tianshou.md").read_text(encoding="utf-8")


def weights(program: Path) -> dict[str, Any]:
    net: torch.nn.Module = runpy.run_path(str(program))["main"]()
    return net.state_dict()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["dqn", pytest.param("ppo", marks=pytest.mark.quick), "cloning"])
def test_both_programs_learn_the_same(name: str):
    before, after = (weights(PROGRAMS / f"{name}_{when}.py") for when in ("before", "after"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_difference(name: str):
    texts = [(PROGRAMS / f"{name}_{when}.py").read_text(encoding="utf-8") for when in ("before", "after")]
    shown = list(difflib.unified_diff(*(text.splitlines() for text in texts), n=1, lineterm=""))[2:]
    blocks = re.findall(r"^```diff\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == len(NAMES)
    assert blocks[NAMES.index(name)] == "\n".join(shown)


def test_a_dtype_that_is_asked_for_holds_for_arrays_too():
    rewards = {"rew": np.zeros(3)}
    assert ts.Batch(rewards).to_torch(dtype=torch.float32).rew.dtype == torch.float64
    assert typedbatch.Batch(rewards).to_torch(dtype=torch.float32)["rew"].dtype == torch.float32
    assert typedbatch.Batch(rewards).to_torch()["rew"].dtype == torch.float64
