"""@checked in classes and dataclasses, tensors; own stages for a world model."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, SchemaError, checked, convert, extend, validate


class Frames(BatchRecord):
    image: Tensor
    action: Tensor


class Latents(Frames):
    mean: Tensor
    std: Tensor


class Losses(BatchRecord):
    kl: Tensor
    recon: Tensor


class ReadsLatents(BatchProtocol, Protocol):
    @property
    def mean(self) -> Tensor: ...
    @property
    def std(self) -> Tensor: ...


@checked
@dataclass
class Sequence:
    frames: Frames
    name: str
    extra: Batch


class WorldModel:
    def __init__(self) -> None:
        self.weight = torch.eye(4)
        self.metrics = Batch(kl=[], recon=[])
        self.metrics.best = Batch(kl=float("inf"))

    @checked
    def encode(self, frames: Frames) -> Latents:
        z = frames.image @ self.weight
        return extend(frames, Latents, mean=z, std=z.abs() + 0.1)

    @checked
    def losses(self, batch: Latents) -> Losses:
        kl = (batch.mean.pow(2) + batch.std.pow(2) - 2 * batch.std.log() - 1).sum(-1) / 2
        recon = (batch.mean - batch.image).pow(2).sum(-1)
        return Losses(kl=kl, recon=recon)

    def fit(self, sequences: Iterable[Sequence]) -> Batch:
        for sequence in sequences:
            for part in sequence.frames.split(4):
                losses = self.losses(self.encode(part))
                self.metrics.kl = torch.cat([torch.as_tensor(self.metrics.kl), losses.kl])
                self.metrics.best.kl = min(self.metrics.best.kl, losses.kl.mean().item())
            sequence.extra.fitted = True
            sequence.extra.count = sequence.extra.get("count", 0) + 1
        return self.metrics


def kl_to_prior(batch: ReadsLatents) -> float:
    return (batch.mean.pow(2).sum() + batch.std.sum()).item()


def plain(model: WorldModel, data: Batch) -> Latents:
    return model.encode(data)  # E: user-unchecked


def unencoded(frames: Frames) -> float:
    return kl_to_prior(frames)  # E: user-wrong-stage


def halved(losses: Losses) -> Losses:
    losses.reconstruction = losses.recon / 2  # E: user-misspelt
    return losses


def main() -> None:
    data = Batch(image=torch.randn(8, 4), action=torch.zeros(8))
    data.image[0] = 0.0
    model = WorldModel()
    print(type(plain(model, data)).__name__)
    sequences = [Sequence(validate(data, Frames), f"s{i}", Batch(index=i)) for i in range(2)]
    metrics = model.fit(sequences)
    print(metrics.kl.shape, metrics.best.kl >= 0, sequences[0].extra.count, sequences[1].extra.index)
    latents = model.encode(sequences[0].frames)
    half = convert(latents, Latents, dtype=torch.float16)
    print(half.mean.dtype, kl_to_prior(latents) > 0)
    broken = Batch(data)
    del broken.action
    try:
        plain(model, broken)
    except SchemaError as error:
        print(len(error.problems))


if __name__ == "__main__":
    main()
