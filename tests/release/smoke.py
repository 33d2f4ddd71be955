"""A short program that uses what the core has, run by itself in each environment; it prints the versions it met."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import typedbatch
from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, SchemaError, validate
from typedbatch.buffers import ReplayBuffer
from typedbatch.files import load, save


def rollout() -> RolloutBatch:
    """Three steps."""
    flags = np.zeros(3, bool)
    obs = np.arange(6.0).reshape(3, 2)
    return RolloutBatch(
        obs=obs, obs_next=obs + 1, act=np.arange(3), rew=np.ones(3), terminated=flags, truncated=flags, info=Batch()
    )


def broken_is_reported() -> None:
    """A batch that lacks a field is not taken."""
    try:
        validate(Batch(obs=np.zeros(3)), RolloutBatchProtocol)
    except SchemaError as error:
        said = str(error)
    else:
        said = "nothing"
    assert "TB101" in said, said


def main() -> None:
    """Use a batch, a record, a buffer, a file and the command."""
    batch = rollout()
    assert validate(batch, RolloutBatchProtocol) is batch
    broken_is_reported()
    assert len(Batch.cat([batch, batch[1:]])) == 5
    buffer = ReplayBuffer(8)
    for row in batch:
        buffer.add(row)
    assert len(buffer) == 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rollout.safetensors")
        save(batch, path)
        assert np.array_equal(load(path).obs, batch.obs)
    command = Path(sys.executable).with_name("typedbatch")
    page = subprocess.run([command, "explain", "TB302"], capture_output=True, text=True, check=True).stdout
    assert "dimension-conflict" in page, page
    print(f"typedbatch {typedbatch.__version__}, numpy {np.__version__}")


main()
