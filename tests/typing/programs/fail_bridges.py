"""Mistakes with files and other libraries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, ObsBatch, RolloutBatch, RolloutBatchProtocol
from typedbatch.bridges.dlpack import from_dlpack
from typedbatch.bridges.gymnasium import observations, transitions
from typedbatch.bridges.minari import to_minari, write_minari
from typedbatch.bridges.tianshou import buffer_to_tianshou, from_tianshou
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.bridges.trl import from_trl
from typedbatch.files import load, save, schema_version
from typedbatch.posttraining import Ready

Array = NDArray[Any]


def wants_rollout(batch: RolloutBatchProtocol) -> None: ...


def wrong(rollout: RolloutBatch, obs: ObsBatch, open_: Batch, step: tuple[Array, float, bool, bool, dict[str, Any]]) -> None:
    save({"obs": np.zeros(3)}, "a.h5")  # E: dict-for-batch
    save(rollout)  # E: no-path
    save(rollout, "a.h5", compresion="gzip")  # E: misspelt-option: compresion
    load()  # E: no-path
    load(3)  # E: number-for-path
    load("a.h5", RolloutBatch).rwe  # E: misspelt-read-of-loaded: rwe
    load("a.h5", RolloutBatchProtocol, mmap="yes")  # E: text-for-flag
    wants_rollout(load("a.h5"))  # E: open-batch-for-rollout
    schema_version("2")  # E: version-is-a-number
    wants_rollout(observations((np.zeros(3), {})))  # E: obs-for-rollout
    transitions(np.zeros(3), 0, step).rew_next  # E: misspelt-read-of-step: rew_next
    transitions(np.zeros(3), 0)  # E: no-step
    to_minari(obs)  # E: obs-for-rollout
    write_minari(obs, "mine-v0")  # E: obs-for-rollout
    to_minari(open_)  # E: open-batch-for-rollout
    from_tianshou(rollout)  # E: ours-for-theirs
    buffer_to_tianshou(rollout)  # E: batch-for-buffer
    collate(rollout, rollout)  # E: rows-are-a-list
    BatchDataset({"obs": np.zeros(3)})  # E: dict-for-batch
    BatchDataset(rollout)[0].rwe  # E: misspelt-read-of-row: rwe
    from_dlpack({"a": np.zeros(3)}, into="jax")  # E: no-such-library
    from_dlpack([np.zeros(3)])  # E: list-for-names
    from_trl([np.zeros(3)])  # E: list-for-inputs
    from_trl({"a": 1}, into=Ready).advantage  # E: misspelt-read-of-inputs: advantage
