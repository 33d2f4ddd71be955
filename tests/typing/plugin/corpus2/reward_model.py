"""A reward model from pairwise comparisons: features, Bradley-Terry loss, calibration, best-of-n."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import torch
from torch import nn

from typedbatch import Batch, cat, stack


@dataclass
class Corpus:
    train: Batch
    held_out: Batch
    by_annotator: dict[str, list[Batch]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Run:
    margin: float = 0.0
    label_smoothing: float = 0.1
    swap_half: bool = True
    logs: list[Batch] = field(default_factory=list)


def featurise(text: str) -> np.ndarray:
    counts = np.array([text.count(c) for c in "aeiou "], dtype=np.float32)
    return counts / max(1, len(text))


def build(seed: int, n: int = 40) -> Corpus:
    rng = np.random.default_rng(seed)
    words = ["apple", "queue", "rhythm", "eerie", "oboe", "myth", "audio", "lynx"]
    rows = []
    by_annotator: dict[str, list[Batch]] = defaultdict(list)
    for k in range(n):
        a, b = (" ".join(rng.choice(words, 3)) for _ in range(2))
        row = Batch(left=featurise(a), right=featurise(b), who=k % 3)
        row.label = float(row.left[:5].sum() > row.right[:5].sum())
        if rng.random() < 0.1:
            row.label = 1.0 - row.label
        by_annotator[f"annotator{k % 3}"].append(row)
        #! misspelt-read: by_annotator[f"annotator{row.whom}"].append(row)
        rows.append(row)
    table = stack(rows)
    table.gap = np.abs(table.left - table.right).sum(-1)
    table.weight = np.where(table.gap > 0, 1.0, 0.0).astype(np.float32)
    #! misspelt-read: table.weight = np.where(table.gaps > 0, 1.0, 0.0).astype(np.float32)
    cut = int(0.75 * n)
    return Corpus(table[:cut], table[cut:], by_annotator)


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.net(x).squeeze(-1)
        return y


def compare(net: Scorer, mb: Batch, run: Run) -> Batch:
    out = Batch(left=net(mb["left"]), right=net(mb["right"]))
    out.diff = out.left - out.right
    if run.margin:
        out.diff = out.diff - run.margin * (2 * mb["label"] - 1)
    soft = mb["label"] * (1 - run.label_smoothing) + 0.5 * run.label_smoothing
    out.loss = nn.functional.binary_cross_entropy_with_logits(out.diff, soft, mb["weight"])
    #! misspelt-item: out.loss = nn.functional.binary_cross_entropy_with_logits(out.diff, soft, mb["weights"])
    with torch.no_grad():
        out.right_order = ((out.diff > 0) == (mb["label"] > 0.5)).float()
    return out


def accuracy(batches: Iterable[Batch]) -> float:
    return reduce(lambda acc, b: acc + float(b["right_order"].mean()), batches, 0.0)


def train(corpus: Corpus, run: Run, epochs: int = 4) -> Scorer:
    torch.manual_seed(0)
    net = Scorer()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    data = corpus.train.to_torch(dtype=torch.float32)
    if run.swap_half:
        half = len(data) // 2
        flipped = data[:half].copy()
        flipped.left, flipped.right = data[:half]["right"], data[:half]["left"]
        flipped.label = 1 - data[:half]["label"]
        data = cat([flipped, data[half:]])
    for epoch in range(epochs):
        outs = []
        for mb in data.split(10, rng=epoch):
            out = compare(net, mb, run)
            opt.zero_grad()
            out["loss"].backward()
            opt.step()
            outs.append(out)
        entry = Batch(epoch=epoch, loss=float(outs[-1]["loss"]), acc=accuracy(outs) / len(outs))
        entry.reg = sum(float(p.detach().abs().sum()) for p in net.parameters())
        run.logs.append(entry)
        print(f"{entry.epoch}: {entry.loss:.3f} {entry.acc:.2f} |w| {entry.reg:.1f}")
        #! misspelt-read: print(f"{entry.epoch}: {entry.loss:.3f} {entry.accuracy:.2f} |w| {entry.reg:.1f}")
    return net


def calibration(net: Scorer, corpus: Corpus) -> Batch:
    data = corpus.held_out.to_torch(dtype=torch.float32)
    with torch.no_grad():
        p = torch.sigmoid(net(data["left"]) - net(data["right"]))
        #! old-name: p = torch.sigmoid(net(data["chosen"]) - net(data["rejected"]))
    table = Batch(p=p.numpy(), y=corpus.held_out["label"])
    table.bin = np.minimum((table.p * 4).astype(int), 3)
    per_bin = []
    for k in np.unique(table.bin):
        part = table[table.bin == k]
        per_bin.append(Batch(conf=part.p.mean(), freq=part.y.mean(), n=len(part)))
    result = stack(per_bin)
    result.ece = np.abs(result.conf - result.freq) * result.n / result.n.sum()
    #! old-name: result.ece = np.abs(result.conf - result.acc) * result.n / result.n.sum()
    return result


def best_of(net: Scorer, texts: list[str], n: int) -> list[Batch]:
    cands = [Batch(text=t, x=featurise(t)) for t in texts]
    for c in cands:
        with torch.no_grad():
            c.score = float(net(torch.as_tensor(c.x)[None]))
            #! wrong-kind: c.score = float(net(c.x[None]))
    return heapq.nlargest(n, cands, key=lambda c: float(c.score))


def main() -> None:
    corpus = build(0)
    for name, rows in corpus.by_annotator.items():
        print(name, len(rows), "labels", sum(r.label for r in rows))
    run = Run(margin=0.1)
    net = train(corpus, run)
    cal = calibration(net, corpus)
    print("ece", cal["ece"].sum(), "bins", len(cal))
    for c in best_of(net, ["aeio", "my rhythm", "queue oboe", "xyz"], 2):
        print(c.text, f"{c.score:.2f}")
        #! misspelt-read: print(c.texts, f"{c.score:.2f}")
    first, last = run.logs[0], run.logs[-1]
    assert last.epoch > first.epoch
    for log in run.logs:
        log.pop("reg")
    print(sorted(last.keys()))


if __name__ == "__main__":
    main()
