"""Population-based training: members as dataclasses, batches as hyperparameters, torch."""
from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from typedbatch import Batch


@dataclass(order=True)
class Member:
    score: float
    number: int
    weights: Tensor = field(compare=False)
    hyper: Batch = field(compare=False, default_factory=Batch)


def data(generator: torch.Generator, n: int) -> Batch:
    batch = Batch(x=torch.randn(n, 3, generator=generator))
    batch.y = batch.x @ torch.tensor([1.0, -1.0, 0.5])
    batch.aux = Batch(noise=torch.randn(n, generator=generator))
    batch.y += 0.01 * batch.aux.noise
    return batch


def train(member: Member, batch: Batch) -> Member:
    weights = member.weights.clone().requires_grad_()
    loss: Tensor = (batch.x @ weights - batch.y).pow(2).mean() + float(member.hyper.decay) * weights.pow(2).sum()
    (grad,) = torch.autograd.grad(loss, [weights])
    new = weights.detach() - float(member.hyper.lr) * grad
    hyper = Batch(member.hyper)
    hyper.steps = member.hyper.get("steps", 0) + 1
    return replace(member, score=-loss.item(), weights=new, hyper=hyper)


def exploit(members: list[Member], generator: torch.Generator) -> list[Member]:
    best = heapq.nlargest(2, members)
    out: list[Member] = []
    for member in members:
        if member in best:
            out.append(member)
            continue
        source = best[int(torch.randint(0, 2, (1,), generator=generator).item())]
        hyper = Batch(source.hyper, copy=True)
        factor = 0.8 if torch.rand(1, generator=generator).item() < 0.5 else 1.2
        hyper.lr = float(hyper.lr) * factor
        hyper.parent = Batch(number=source.number, score=source.score)
        out.append(Member(source.score, member.number, source.weights.clone(), hyper))
    return out


class History:
    def __init__(self) -> None:
        self.rows: defaultdict[int, list[Batch]] = defaultdict(list)

    def add(self, member: Member) -> None:
        row = Batch(score=member.score, lr=member.hyper.lr)
        row.from_parent = "parent" in member.hyper
        self.rows[member.number].append(row)

    def table(self) -> dict[int, Batch]:
        return {number: Batch.stack(rows) for number, rows in self.rows.items()}


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    members = [Member(-9.0, i, torch.zeros(3), Batch(lr=0.02 * (i + 1), decay=0.0)) for i in range(5)]
    history = History()
    for generation in range(6):
        batch = data(generator, 64)
        for mb in batch.split(32):
            members = [train(member, mb) for member in members]
        for member in members:
            history.add(member)
        if generation % 2:
            members = exploit(members, generator)
    table = history.table()
    best = max(members)
    print(best.score > -5, best.hyper.steps, best.hyper.decay)
    print(table[0].score.shape, table[0].from_parent.any(), (table[0].lr > 0).all())
    adopted = [member for member in members if "parent" in member.hyper]
    for member in adopted:
        print(member.number != member.hyper.parent.number, member.hyper.parent.score < 0)
        del member.hyper.parent


if __name__ == "__main__":
    main()
