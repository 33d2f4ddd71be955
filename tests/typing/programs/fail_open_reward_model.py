"""Reward modelling: Bradley-Terry on features, torch, dataclass of batches."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from typing_extensions import override

from typedbatch import Batch, BatchRecord, extend, validate


class Comparison(BatchRecord):
    better: Tensor
    worse: Tensor
    weight: Tensor | None = None


class Judged(Comparison):
    margin: Tensor


@dataclass
class Dataset:
    train: Comparison
    test: Comparison
    notes: Batch = field(default_factory=Batch)

    def describe(self) -> str:
        self.notes.sizes = Batch(train=len(self.train), test=len(self.test))
        self.notes.ratio = self.notes.sizes.train / self.notes.sizes.test
        return f"{self.notes.sizes.train} {self.notes.ratio:.1f}"


class RewardModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    @override
    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.head(features)
        return out.squeeze(-1)


def judge(model: RewardModel, batch: Comparison) -> Judged:
    better: Tensor = model(batch.better)
    worse: Tensor = model(batch.worse)
    return extend(batch, Judged, margin=better - worse)


def loss(batch: Judged) -> Tensor:
    each = -nn.functional.logsigmoid(batch.margin)
    if batch.weight is not None:
        each = each * batch.weight
    return each.mean()


def loss_without_judging(batch: Comparison) -> Tensor:
    return loss(batch)  # E: user-wrong-stage


def wrong_field(batch: Judged) -> Tensor:
    return batch.margins.mean()  # E: user-misspelt


def dataset_of_plain(train: Batch, test: Comparison) -> Dataset:
    return Dataset(train=train, test=test)  # E: user-unchecked


def make(n: int) -> Batch:
    batch = Batch(better=torch.randn(n, 4) + 0.5, worse=torch.randn(n, 4))
    batch.id = torch.arange(n)
    batch.weight = torch.ones(n)
    batch.weight[::3] = 0.5
    batch.text = Batch(prompt=["p"] * n, answers={"a": ["x"] * n, "b": ["y"] * n})
    return batch


def main() -> None:
    data = make(64)
    print(data.text.answers.a[0], data[:3].text.prompt.shape)
    del data.text
    held = data.id % 4 == 0
    dataset = Dataset(train=validate(data[~held], Comparison), test=validate(data[held], Comparison))
    dataset.notes.seed = 0
    print(dataset.describe(), dataset.notes.seed)
    model = RewardModel()
    for epoch in range(3):
        for mb in dataset.train.split(16):
            value = loss(judge(model, mb))
            for p, g in zip(model.parameters(), torch.autograd.grad(value, list(model.parameters())), strict=True):
                p.data.sub_(0.5 * g)
        judged = judge(model, dataset.test)
        dataset.notes[f"epoch{epoch}"] = (judged.margin > 0).float().mean().item()
    print(dataset.notes.epoch2 >= 0)


if __name__ == "__main__":
    main()
