"""Fields that are not there are read, and fields are written that are not there, not writable or of another type."""

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithReturns,
    DistBatchProtocol,
    LogpOldProtocol,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
)

Array = NDArray[Any]


class Pixels(BatchRecord):
    cam: Array
    pos: Array


def read_protocol(b: RolloutBatchProtocol, d: DistBatchProtocol[Tensor], p: BatchProtocol) -> None:
    print(b.rwe)  # E: misspelt-read: rwe
    print(b.done)  # E: misspelt-read: done
    print(b.returns)  # E: misspelt-read: returns
    print(b[:10].observations)  # E: misspelt-read: observations
    print(d.log_prob)  # E: misspelt-read: log_prob
    print(p.obs)  # E: misspelt-read: obs
    print(b.rew.meen())  # E: misspelt-read: meen
    for row in b:
        print(row.reward)  # E: misspelt-read: reward
    for mini in b.split(32):
        print(mini.v_s)  # E: misspelt-read: v_s


def read_record(b: RolloutBatch, r: BatchWithReturns[Tensor]) -> None:
    print(b.rwe)  # E: misspelt-read: rwe
    print(b[0].rwe)  # E: misspelt-read: rwe
    print(Batch.cat([b, b]).rwe)  # E: misspelt-read: rwe
    print(next(b.split(2)).rwe)  # E: misspelt-read: rwe
    print(b.copy().rwe)  # E: misspelt-read: rwe
    print(r.adv)  # E: misspelt-read: adv
    print(r.returns.numpyy())  # E: misspelt-read: numpyy


def read_nested(b: RolloutBatchProtocol[Array, Pixels], r: RolloutBatch[Array, Pixels]) -> None:
    print(b.obs.cam, r.obs_next.pos)
    print(b.obs.camera)  # E: misspelt-read: camera
    print(b.obs_next[0].poss)  # E: misspelt-read: poss
    print(r.obs.cam.shpe)  # E: misspelt-read: shpe


def write_protocol(b: RolloutBatchProtocol, ready: LogpOldProtocol[Tensor], a: Array, t: Tensor) -> None:
    b.rew = a  # E: read-only-write: rew
    b.obs = a  # E: read-only-write: obs
    ready.adv = t  # E: read-only-write: adv
    b[:2].act = a  # E: read-only-write: act
    b.rew += 1  # E: read-only-write: rew
    b.returns = a  # E: undeclared-write: returns
    b.shape = [3]  # E: read-only-write: shape
    del b.rew  # E: delete [not: mypy, pyrefly, zuban]


def write_record(b: RolloutBatch, r: RolloutBatch[Array, Pixels], a: Array, t: Tensor) -> None:
    b.rew = a
    b.rew += 1
    r.obs.cam = a
    b.rwe = a  # E: undeclared-write: rwe
    b.returns = a  # E: undeclared-write: returns
    b[:2].returns = a  # E: undeclared-write: returns
    b.rew = "text"  # E: wrong-write
    b.rew = None  # E: wrong-write
    b.act = t  # E: wrong-write
    b.obs_next = [a, a]  # E: wrong-write
    r.obs = a  # E: wrong-write
    r.obs.camera = a  # E: undeclared-write: camera
    r.obs.pos = 3.0  # E: wrong-write
    b.shape = [3]  # E: read-only-write: shape


def write_rows(b: RolloutBatch, p: ObsBatchProtocol) -> None:
    b[0] = {"rew": 1.0}
    p[0] = {"obs": 1.0}  # E: protocol-rows
    del p["obs"]  # E: protocol-rows
    b[1.5] = {"rew": 1.0}  # E: wrong-index
