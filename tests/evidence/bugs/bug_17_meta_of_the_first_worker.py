"""Joining what the workers give keeps the metadata of worker 0."""

import numpy as np

from typedbatch import Batch, cat

PROJECT = "verl, ROLL"
LINK = "https://github.com/verl-project/verl/pull/3699"
CAUGHT_BY = "operation"

WORKERS = [
    {"loss": np.ones(2), "meta": {"metrics": [0.1], "temperature": 1.0}},
    {"loss": np.ones(2), "meta": {"metrics": [0.9], "temperature": 1.0, "skipped": 3}},
]


def broken() -> str:
    joined = {"loss": np.concatenate([w["loss"] for w in WORKERS]), "meta": WORKERS[0]["meta"]}
    assert "skipped" not in joined["meta"] and np.mean(joined["meta"]["metrics"]) == 0.1
    return "the logged metric is 0.1 instead of 0.5, and 'skipped' is gone"


def typed() -> object:  # cat(..., meta={"metrics": ..., "skipped": ...}) says how
    return cat([Batch(loss=worker["loss"], meta=worker["meta"]) for worker in WORKERS])
