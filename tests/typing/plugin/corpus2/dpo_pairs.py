"""Direct preference optimisation from a file of pairs: read, pad, reference pass, train, evaluate."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, convert, extend, stack

PAD = 0


class PairArrays(BatchRecord):
    chosen: NDArray[np.int64]
    rejected: NDArray[np.int64]


class Pairs(BatchRecord):
    chosen: Tensor
    rejected: Tensor


class PairsWithRef(Pairs):
    ref_chosen: Tensor
    ref_rejected: Tensor


class Split(NamedTuple):
    train: PairArrays
    test: PairArrays


Metrics = namedtuple("Metrics", ["loss", "acc"])


class Tiny(nn.Module):
    def __init__(self, vocab: int = 12) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, 8)
        self.out = nn.Linear(8, vocab)

    def seq_logp(self, tokens: Tensor) -> Tensor:
        logits = self.out(self.emb(tokens[:, :-1]))
        logp = torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
        return (logp * (tokens[:, 1:] != PAD)).sum(-1)


def pad_to(seq: list[int], n: int) -> NDArray[np.int64]:
    out = np.full(n, PAD, np.int64)
    out[: len(seq)] = seq
    return out


def load(rng: np.random.Generator, n: int = 24) -> Split:
    records: list[Batch] = []
    for k in range(n):
        size = int(rng.integers(3, 8))
        base = rng.integers(1, 6, size).tolist()
        row = Batch(prompt=base[0], source=k % 3)
        row.chosen = pad_to([*base, 11], 9)
        row.rejected = pad_to([*base, 7], 9)
        if k % 5 == 0:
            row.chosen, row.rejected = row.chosen[::1], row.rejected[::1]
        row.pop("prompt")
        records.append(row)
    table = stack(records)
    keep = table.source < 2
    #! removed-field: keep = table.prompt < 2
    train = table[keep]
    test = table[~keep]
    return Split(
        PairArrays(chosen=train.chosen, rejected=train.rejected),
        PairArrays(chosen=test.chosen, rejected=test.rejected),
    )


def with_reference(ref: Tiny, pairs: Pairs) -> PairsWithRef:
    with torch.no_grad():
        a, b = ref.seq_logp(pairs.chosen), ref.seq_logp(pairs.rejected)
    return extend(pairs, PairsWithRef, ref_chosen=a, ref_rejected=b)
    #! forgotten-field: return extend(pairs, PairsWithRef, ref_chosen=a)


def dpo_loss(model: Tiny, batch: PairsWithRef, beta: float, ipo: bool = False) -> Batch:
    pi = Batch(chosen=model.seq_logp(batch.chosen), rejected=model.seq_logp(batch.rejected))
    margin = (pi.chosen - batch.ref_chosen) - (pi.rejected - batch.ref_rejected)
    #! missing-field: margin = (pi.chosen - pi.ref_chosen) - (pi.rejected - pi.ref_rejected)
    out = Batch(margin=margin, acc=(margin > 0).float())
    if ipo:
        out.loss = (margin - 1 / (2 * beta)) ** 2
    else:
        out.loss = -F.logsigmoid(beta * margin)
        out.weight = torch.sigmoid(-beta * margin)
    return out


def batches(pairs: PairsWithRef, size: int, rng: np.random.Generator) -> Iterator[PairsWithRef]:
    yield from pairs.split(size, rng=rng)


def fit(split: Split, ipo: bool) -> Metrics:
    torch.manual_seed(0)
    model, ref = Tiny(), Tiny()
    ref.load_state_dict(model.state_dict())
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    train = with_reference(ref, convert(split.train, Pairs))
    #! wrong-stage: train = with_reference(ref, split.train)
    rng = np.random.default_rng(3)
    for epoch in range(3):
        curve: list[Batch] = []
        for mb in batches(train, 6, rng):
            res = dpo_loss(model, mb, 0.3, ipo)
            opt.zero_grad()
            res["loss"].mean().backward()
            opt.step()
            point = Batch(loss=res["loss"].mean().item(), acc=res["acc"].mean().item())
            #! misspelt-keyword: point = Batch(loss=res["loss"].mean().item(), accuracy=res["acc"].mean().item())
            if not ipo:
                point.weight = res["weight"].mean().item()
            curve.append(point)
        epoch_stats = stack(curve)
        if not ipo:
            print(epoch, f"weight {epoch_stats.weight.mean():.3f}", end=" ")
        print(f"loss {epoch_stats.loss.mean():.3f} acc {epoch_stats.acc.mean():.2f}")
        #! misspelt-read: print(f"loss {epoch_stats.losses.mean():.3f} acc {epoch_stats.acc.mean():.2f}")
    test = with_reference(ref, convert(split.test, Pairs))
    final = dpo_loss(model, test, 0.3, ipo)
    return Metrics(float(final["loss"].mean()), float(final["acc"].mean()))
    #! branch-field: return Metrics(float(final["weight"].mean()), float(final["acc"].mean()))


def main() -> None:
    split = load(np.random.default_rng(0))
    assert len(split.train) > len(split.test)
    for ipo in (False, True):
        m = fit(split, ipo)
        print("ipo" if ipo else "dpo", m.loss, m.acc)


if __name__ == "__main__":
    main()
