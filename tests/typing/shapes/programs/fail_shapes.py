"""Each report, in the words in which it comes."""

from typing import Any

import jaxtyping as jt
import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int, UInt8
from torch import Tensor

from typedbatch import BatchRecord, BatchWithReturns, RolloutBatch, extend


class Rows(BatchRecord):
    obs: Float32[np.ndarray, "N 4"]
    act: Int[np.ndarray, "N"]


class Returns(Rows):
    returns: Float32[np.ndarray, "N"]


def elementwise(
    one: Float[Tensor, "N"], column: Float[Tensor, "N 1"], t: Float[Tensor, "T B"], longer: Float[Tensor, "T+1 B"]
) -> None:
    column * one
    # error: *: (N, 1) and (N,) make (N, N): each N against every other  [batch-shape]
    t - longer
    # error: -: (T, B) and (T+1, B) do not fit: T against T+1  [batch-shape]
    t + t.T
    # error: +: (T, B) and (B, T) do not fit: T against B  [batch-shape]
    t.reshape(t.shape[1], t.shape[0])
    # error: reshape of (T, B) to (B, T) moves no data: it renames the axes; transpose swaps them  [batch-shape]
    one += column.squeeze(-1)[:, None]
    # error: +=: (N, 1) does not fit into (N,)  [batch-shape]


def tokens(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"], mask: UInt8[Tensor, "N L"]) -> Float[Tensor, "N"]:
    logits[:, :-1].gather(2, labels[:, :, None])
    # error: gather: an index of (N, L, 1) for (N, L-1, V): L against L-1  [batch-shape]
    F.cross_entropy(logits.transpose(1, 2), labels[:, 1:])
    # error: cross_entropy: classes of (N, L-1) for (N, V, L), (N, L) is expected  [batch-shape]
    ~mask
    # error: ~ of uint8 flips bits, so that ~1 is not 0; it inverts a mask of bool only  [batch-dtype]
    return logits.sum(-1)
    # error: Result is declared as (N,), got (N, L)  [batch-shape]


def losses(q: Float[Tensor, "N A"], act: Int[Tensor, "N"], target: Float[Tensor, "N"], done: Bool[Tensor, "N"]) -> None:
    chosen = q.gather(1, act[:, None])
    F.mse_loss(chosen, target)
    # error: mse_loss: (N, 1) and (N,) are not the same shape  [batch-shape]
    (1 - done) * target
    # error: - of bool is an error in torch and numpy; ~ inverts a mask  [batch-dtype]
    torch.stack([q, q.T])
    # error: stack: (N, A) and (A, N) do not fit: N against A  [batch-shape]
    q @ q
    # error: @: (N, A) and (N, A) do not fit: A against N  [batch-shape]
    torch.einsum("na,nb->ab", q, target)
    # error: einsum: nb of na,nb->ab is for 2 axes, not (N,)  [batch-shape]
    done.mean()
    # error: mean: torch has it for floats only, these are bool  [batch-dtype]


def records() -> None:
    rows = Rows(obs=np.zeros((256, 4), np.float32), act=np.zeros(255, np.int64))
    # error: Argument "act" of Rows takes (N,), got (255,); N is 256 here  [batch-shape]
    Rows(obs=np.zeros((256, 4)), act=rows.act)
    # error: Argument "obs" of Rows takes float32, got float64  [batch-dtype]
    take(rows.obs[:, 0], rows.act)
    # error: Argument "obs" of take takes (N, 4), got (256,)  [batch-shape]
    extend(rows, Returns, returns=rows.obs[:, :1])
    # error: Field "returns" takes (N,), got (256, 1)  [batch-shape]
    rows.obs = rows.obs[:, :3]
    # error: Field "obs" takes (N, 4), got (256, 3)  [batch-shape]
    rows.obs[:, 4]
    # error: index 4 of an axis of 4, in (256, 4)  [batch-shape]


def take(obs: Float32[np.ndarray, "N 4"], act: Int[np.ndarray, "N"]) -> None: ...


def loops(rew: Float[Tensor, "T B"], value: Float[Tensor, "T+1 B"]) -> Float[Tensor, "T B"]:
    adv = torch.zeros_like(rew)
    last = torch.zeros(rew.shape[0])
    for t in reversed(range(rew.shape[0])):
        last = rew[t] + value[t + 1] - value[t] + last
        # error: +: (B,) and (T,) do not fit: B against T  [batch-shape]
        adv[t] = last
    return adv


def malformed(x: jt.Float[Tensor, "N (2"]) -> None: ...
# error: the shape 'N (2' has '(2', which is neither a name nor a number nor an expression of them; dimensions are separated by blanks  [batch-shape]
