"""Behaviour cloning from a logged data set, with a held-out part and early stopping."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from typedbatch import Batch


def write_log(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(n, 4)).astype(np.float32)
    actions = (observations @ np.array([1.0, -1.0, 0.5, 0.0]) > 0).astype(np.int64)
    np.savez(path, observations=observations, actions=actions, rewards=rng.normal(size=n), episode=np.arange(n) // 10)


def load(path: Path) -> Batch:
    with np.load(path) as file:
        return Batch({name: file[name] for name in file.files})


def split_episodes(data: Batch, share: float) -> tuple[Batch, Batch]:
    last = data["episode"].max() * share
    return data[data["episode"] <= last], data[data["episode"] > last]


def normaliser(data: Batch) -> Batch:
    stats = Batch(mean=data["observations"].mean(0), std=data["observations"].std(0))
    stats.std = np.maximum(stats.std, 1e-3)
    #! misspelt-read: stats.std = np.maximum(stats.sd, 1e-3)
    return stats


def prepare(data: Batch, stats: Batch) -> Batch:
    scaled = (data["observations"] - stats["mean"]) / stats["std"]
    #! misspelt-item: scaled = (data["observations"] - stats["means"]) / stats["std"]
    out = Batch(obs=scaled.astype(np.float32), act=data["actions"])
    out.weight = np.exp(data["rewards"] - data["rewards"].max())
    #! old-name: out.weight = np.exp(data["rew"] - data["rew"].max())
    out.weight /= out.weight.sum()
    #! misspelt-read: out.weight /= out.weights.sum()
    return out.to_torch(dtype=torch.float32)


class Cloner:
    def __init__(self, weighted: bool) -> None:
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-2)
        self.weighted = weighted
        self.best = Batch(loss=np.inf, epoch=-1)

    def step(self, minibatch: Batch) -> float:
        losses = nn.functional.cross_entropy(self.net(minibatch["obs"]), minibatch["act"].long(), reduction="none")
        if self.weighted:
            minibatch.loss = losses * minibatch["weight"] / minibatch["weight"].sum()
        else:
            minibatch.loss = losses / len(minibatch)
        total = minibatch.loss.sum()
        #! misspelt-read: total = minibatch.losses.sum()
        self.optim.zero_grad()
        total.backward()
        self.optim.step()
        return float(total.item())

    @torch.no_grad()
    def evaluate(self, held_out: Batch, epoch: int) -> bool:
        logits = self.net(held_out["obs"])
        loss = nn.functional.cross_entropy(logits, held_out["act"].long()).item()
        improved = loss < float(self.best.loss)
        #! misspelt-read: improved = loss < float(self.best.los)
        if improved:
            self.best = Batch(loss=loss, epoch=epoch)
        return improved


def main() -> None:
    np.random.seed(0)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        write_log(path, 200, seed=0)
        data = load(path)
    train, held_out = split_episodes(data, 0.8)
    stats = normaliser(train)
    train, held_out = prepare(train, stats), prepare(held_out, stats)
    for weighted in (True, False):
        cloner = Cloner(weighted)
        for epoch in range(5):
            losses = [cloner.step(minibatch) for minibatch in train.split(32)]
            if not cloner.evaluate(held_out, epoch):
                break
        print(weighted, f"{np.mean(losses):.4f} best {float(cloner.best.loss):.4f} at {int(cloner.best.epoch)}")
        #! misspelt-read: print(weighted, f"{np.mean(losses):.4f} best {float(cloner.best.loss):.4f} at {int(cloner.best.step)}")


if __name__ == "__main__":
    main()
