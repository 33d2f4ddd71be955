"""Conversion of a D4RL-like data set into typed tensors, and offline Q-learning (CQL-ish)."""
from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchWithReturns, RolloutBatch, RolloutBatchProtocol, checked, convert, extend
from typedbatch.files import load, save

NAMES = {"observations": "obs", "actions": "act", "rewards": "rew", "next_observations": "obs_next", "terminals": "terminated", "timeouts": "truncated"}


def fake_d4rl(n: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(n, 3)).astype(np.float32),
        "next_observations": rng.normal(size=(n, 3)).astype(np.float32),
        "actions": rng.integers(2, size=n),
        "rewards": rng.random(n).astype(np.float32),
        "terminals": np.arange(n) % 20 == 19,
        "timeouts": np.zeros(n, bool),
    }


def rename(raw: dict[str, object]) -> Batch:
    batch = Batch()
    for old, new in NAMES.items():
        batch[new] = raw[old]
    batch.info = Batch()
    batch.rew -= batch.rew.mean()
    return batch


def to_record(batch: Batch) -> RolloutBatch:
    return RolloutBatch(
        obs=batch.obs, act=batch.act, rew=batch.rew, obs_next=batch.obs_next,
        terminated=batch.terminated, truncated=batch.truncated, info=batch.info,
    )


def to_record_quickly(batch: Batch) -> RolloutBatch:
    return batch  # E: user-unchecked


def target(net: nn.Module, batch: RolloutBatchProtocol[Tensor]) -> BatchWithReturns[Tensor]:
    with torch.no_grad():
        q: Tensor = net(batch.obs_next)
    returns = batch.rew + 0.9 * q.max(1).values * (~batch.terminated).float()
    return extend(batch, BatchWithReturns[Tensor], returns=returns)


@checked
def loss(net: nn.Module, batch: BatchWithReturns[Tensor]) -> Tensor:
    q: Tensor = net(batch.obs)
    chosen = q.gather(1, batch.act[:, None]).squeeze(1)
    return (chosen - batch.returns).pow(2).mean() + 0.1 * (q.logsumexp(1) - chosen).mean()


def loss_of_arrays(net: nn.Module, batch: RolloutBatch) -> Tensor:
    return loss(net, target(net, batch))  # E: user-wrong-kind


def main() -> None:
    data = rename(fake_d4rl(100))
    data.episode = np.cumsum(data.terminated) - data.terminated
    print({int(e): float(data[data.episode == e].rew.sum().round(1)) for e in np.unique(data.episode)})
    record = to_record(data)
    path = Path(mkdtemp()) / "d4rl.safetensors"
    save(record, path)
    again = load(path, RolloutBatch)
    tensors = convert(again, RolloutBatch[Tensor], dtype=torch.float32)
    net = nn.Linear(3, 2)
    for mb in tensors.split(25):
        value = loss(net, target(net, mb))
        for parameter, grad in zip(net.parameters(), torch.autograd.grad(value, list(net.parameters())), strict=True):
            parameter.data.sub_(0.1 * grad)
        print(value.item() > 0)
    back = tensors[:5].to_numpy()
    print(back.obs.dtype, back.rew.shape)


if __name__ == "__main__":
    main()
