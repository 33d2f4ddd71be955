"""Soft labels for language models: packing, masks and an open batch that goes to tensors and back."""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from typedbatch import Batch


def tokenize(texts: list[str]) -> list[list[int]]:
    return [[ord(c) % 11 for c in text] for text in texts]


def collate(rows: list[list[int]], pad: int = 0) -> Batch:
    longest = max(len(row) for row in rows)
    batch = Batch(ids=np.full((len(rows), longest), pad))
    batch.mask = np.zeros((len(rows), longest), bool)
    for i, row in enumerate(rows):
        batch.ids[i, : len(row)] = row
        batch.mask[i, : len(row)] = True
    batch.length = batch.mask.sum(1)
    return batch


def teacher(batch: Batch) -> Batch:
    out = Batch(batch)
    out.teacher = Batch()
    out.teacher.logits = torch.nn.functional.one_hot(batch.ids, 11).float() * 3
    out.teacher.entropy = -(out.teacher.logits.softmax(-1) * out.teacher.logits.log_softmax(-1)).sum(-1)
    return out


def distil(student: Tensor, batch: Batch, temperature: float) -> Tensor:
    logits = student[batch.ids] / temperature
    target = (batch.teacher.logits / temperature).softmax(-1)
    each = -(target * logits.log_softmax(-1)).sum(-1)
    loss: Tensor = (each * batch.mask).sum() / batch.mask.sum()
    return loss


def statistics(batch: Batch) -> Batch:
    stats = Batch(tokens=batch.mask.sum(), entropy=batch.teacher.entropy[batch.mask].mean())
    stats.padding = 1 - batch.mask.float().mean()
    stats.to_numpy_()
    return stats


def epoch(student: Tensor, data: Batch, size: int) -> Batch:
    results: list[Batch] = []
    for mb in data.split(size):
        with_teacher = teacher(mb)
        loss = distil(student, with_teacher, 2.0)
        (grad,) = torch.autograd.grad(loss, [student])
        student.data.sub_(5.0 * grad)
        stats = statistics(with_teacher)
        stats.loss = loss.item()
        results.append(stats)
    return Batch.stack(results)


def main() -> None:
    texts = ["typed", "batches", "for", "language", "models", "and", "robots", "too"]
    arrays = collate(tokenize(texts))
    arrays.text = texts
    print(arrays.ids.shape, arrays[0].text, arrays.length.max())
    del arrays.text
    data = arrays.to_torch()
    data.weight = torch.ones(len(data))
    data.weight /= data.length
    student = torch.zeros(11, 11, requires_grad=True)
    for number in range(3):
        log = epoch(student, data, 4)
        log.epoch = np.full(len(log), number)
        print(number, log.loss.mean().round(2), log.tokens.sum(), log.padding.shape)
    probs = Batch(p=student.detach().softmax(-1))
    probs.best = probs.p.argmax(-1)
    probs.to_numpy_()
    probs.best = probs.best.astype(np.int32)
    print((probs.best == np.arange(11)).mean() > 0.5, probs.p.dtype)


if __name__ == "__main__":
    main()
