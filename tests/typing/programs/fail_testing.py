"""Mistakes with data that is made, and with models."""

import numpy as np
from pydantic import BaseModel

from typedbatch import Batch, ObsBatch, RolloutBatch, RolloutBatchProtocol
from typedbatch.bridges.pydantic import model_from
from typedbatch.infer import infer_schema
from typedbatch.testing import batches, example


class Step(BaseModel):
    rollout: RolloutBatchProtocol


def wants_rollout(batch: RolloutBatchProtocol) -> None: ...


def wrong(obs: ObsBatch, open_: Batch) -> None:
    example()  # E: no-schema
    example(RolloutBatch, N="8")  # E: text-for-size
    example(RolloutBatch, fields=[1])  # E: list-for-fields
    example(RolloutBatch).rwe  # E: misspelt-read: rwe
    wants_rollout(example(ObsBatch))  # E: obs-for-rollout
    batches(RolloutBatch, fields={"obs": np.zeros(3)})  # E: value-for-strategy
    batches(RolloutBatch).exampel()  # E: misspelt-member: exampel
    infer_schema(open_, style="class")  # E: no-such-style
    infer_schema(open_, 3)  # E: number-for-name
    Step(rollout=obs)  # E: converted-by-pydantic [not: pyrefly, ty]
    Step(rollout=open_)  # E: converted-by-pydantic [not: pyrefly, ty]
    Step(rollout=example(RolloutBatch)).rollout.rwe  # E: misspelt-read: rwe
    model_from()  # E: no-schema
