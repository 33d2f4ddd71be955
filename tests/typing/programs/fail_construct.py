"""Records that are built wrongly."""

from typing import Any

from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from typedbatch import (
    ActBatch,
    ActStateBatch,
    Batch,
    BatchRecord,
    DistBatch,
    FQFBatch,
    ObsBatch,
    PrioBatch,
    RecurrentState,
    RolloutBatch,
)

Array = NDArray[Any]


class Pixels(BatchRecord):
    cam: Array
    pos: Array


class Preference(BatchRecord):
    chosen: Array
    rejected: Array
    margin: Array | float = 0.0


def missing(a: Array, t: Tensor, dist: Distribution) -> None:
    ObsBatch(obs=a)  # E: missing-field: info
    ActStateBatch(act=a)  # E: missing-field: state
    RolloutBatch(obs=a, info=Batch(), obs_next=a, act=a, terminated=a, truncated=a)  # E: missing-field: rew
    PrioBatch(obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a)  # E: missing-field: weight
    DistBatch(act=t, state=None, dist=dist)  # E: missing-field: logits
    RecurrentState(hidden=t)  # E: missing-field: cell
    FQFBatch(act=t, state=None, logits=t, fractions=t)  # E: missing-field: quantiles_tau
    Preference(chosen=a)  # E: missing-field: rejected
    RolloutBatch[Tensor](obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t)  # E: missing-field: truncated
    Preference(chosen=a, rejected=a)


def misspelt(a: Array, t: Tensor) -> None:
    ActBatch(act=a, acts=a)  # E: unknown-keyword: acts
    RolloutBatch(  # E: unknown-keyword: rwe
        obs=a,
        info=Batch(),
        obs_next=a,
        act=a,
        rew=a,
        rwe=a,
        terminated=a,
        truncated=a,
    )
    RecurrentState(hidden=t, cell=t, done=t)  # E: unknown-keyword: done
    Preference(chosen=a, rejected=a, margn=0.5)  # E: unknown-keyword: margn
    ObsBatch(obs=a, info=Batch(), policy=Batch())  # E: unknown-keyword: policy


def wrong_kind(a: Array, t: Tensor, dist: Distribution) -> None:
    ObsBatch(obs=a, info="no info")  # E: wrong-kind
    ActStateBatch(act=a, state=3.5)  # E: wrong-kind
    DistBatch(act=t, state=None, logits=t, dist=t)  # E: wrong-kind: Distribution
    Preference(chosen=[1, 2], rejected=a)  # E: wrong-kind
    Preference(chosen=a, rejected=a, margin="large")  # E: wrong-kind
    Pixels(cam=a, pos=None)  # E: wrong-kind
    FQFBatch[Tensor](act=t, state=None, logits=t, fractions="half", quantiles_tau=t)  # E: wrong-kind


def wrong_stage(a: Array, t: Tensor) -> None:
    Preference(chosen=t, rejected=a)  # E: wrong-stage: Tensor
    RecurrentState[Tensor](hidden=t, cell=a)  # E: wrong-stage: Tensor
    on_numpy: RecurrentState = RecurrentState(hidden=a, cell=t)  # E: wrong-stage
    on_torch: ObsBatch[Tensor] = ObsBatch(obs=a, info=Batch())  # E: wrong-stage
    print(on_numpy, on_torch)


def positional(a: Array, b: Batch) -> None:
    ActBatch(a)  # E: positional
    RecurrentState(a, a)  # E: positional
    Preference(a, rejected=a)  # E: positional
    Pixels(b)  # E: positional


def ready_made(a: Array) -> None:
    seen = RolloutBatch(obs=Pixels(cam=a), info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a)  # E: missing-field: pos
    print(seen)
