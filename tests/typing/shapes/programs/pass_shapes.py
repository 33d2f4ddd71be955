"""What is right, or not known, is silent."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import BatchRecord


class Rows(BatchRecord):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]


class Net(nn.Module):
    def forward(self, obs: Float[Tensor, "N 4"]) -> Float[Tensor, "N A"]:
        return obs @ torch.zeros(4, 3)


def rebound(x: Float[Tensor, "N 1"], anything: Any) -> None:
    row: Float[Tensor, "N"] = x.squeeze(-1)
    x = anything
    row - x  # nobody knows what x is now


def guarded(x: Float[Tensor, "N"], y: Float[Tensor, "M"], z: Float[Tensor, "N D"]) -> None:
    if x.shape == y.shape:
        x + y
    if z.ndim == 1:
        z + x
    if len(x) != len(y):
        raise ValueError(x)
    x * y


def other_batches(one: Rows, other: Rows) -> None:
    one.rew[:, None] - other.rew
    for part in one.split(64):
        part.rew + part.obs[:, 0]
    both = np.concatenate([one.rew, other.rew])
    both - both.mean()


def growing(tokens: Int[Tensor, "N L"]) -> Tensor:
    while tokens.shape[1] < 100:
        tokens = torch.cat([tokens, tokens[:, -1:]], 1)
    return tokens


def of_modules(net: Net, obs: Float[Tensor, "N 4"], act: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    return net(obs).gather(1, act.unsqueeze(1)).squeeze(1)


def of_numpy(flags: NDArray[np.bool_], x: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    ~flags
    1 - flags
    x[:, 0] + x[0]


def closures(x: Float[Tensor, "N"]) -> None:
    y = x

    def later() -> Tensor:
        return y + torch.zeros(3)

    y = torch.zeros(3)
    later()


def filled(xs: Float[Tensor, "N 4"]) -> Tensor:
    rows, others = [], [xs[0]]
    for x in xs:
        rows.append(x[None])
    grow(others)
    assert np.array(rows)[:, 0, 0].shape
    return torch.cat(rows) + torch.stack(others)[:1]


def grow(tensors: list[Tensor]) -> None:
    tensors.append(tensors[0])


def unpacked(x: Float[Tensor, "*batch d"], y: Float[Tensor, "... d"], mask: Bool[Tensor, "#N L"]) -> None:
    *front, d = x.shape
    x.reshape(-1, d) + y.reshape(-1, d)[:1]
    mask & mask[:, :1]
