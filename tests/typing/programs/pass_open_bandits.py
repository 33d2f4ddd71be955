"""Bandits: a log of pulls, nothing but plain batches."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from typedbatch import Batch

Arms = Callable[[int], float]


def make_arms(means: list[float], rng: np.random.Generator) -> Arms:
    def pull(arm: int) -> float:
        return float(rng.normal(means[arm], 0.1))

    return pull


class UCB:
    def __init__(self, n_arms: int) -> None:
        self.state = Batch(counts=np.zeros(n_arms), sums=np.zeros(n_arms))
        self.state.t = 0

    def choose(self) -> int:
        counts = np.maximum(self.state.counts, 1e-9)
        bonus = np.sqrt(2 * np.log(self.state.t + 1) / counts)
        return int(np.argmax(self.state.sums / counts + bonus))

    def update(self, pulls: Batch) -> None:
        for row in pulls:
            self.state.counts[row.arm] += 1
            self.state.sums[row.arm] += row.rew
        self.state.t += len(pulls)

    @property
    def best(self) -> int:
        return int(np.argmax(self.state.sums / np.maximum(self.state.counts, 1)))


def play(policy: UCB, pull: Arms, rounds: int) -> Batch:
    log: list[Batch] = []
    for t in range(rounds):
        arm = policy.choose()
        step = Batch(arm=arm, rew=pull(arm))
        step.t = t
        log.append(step)
        policy.update(Batch.stack([step]))
    return Batch.stack(log)


def regret(log: Batch, best: float) -> Batch:
    out = Batch(t=log.t)
    out.regret = best - log.rew
    out.total = np.cumsum(out.regret)
    out.half = out[len(out) // 2 :].regret.mean() * np.ones(len(out))
    return out


def by_arm(log: Batch) -> dict[int, Batch]:
    return {int(arm): log[log.arm == arm] for arm in np.unique(log.arm)}


def summarize(log: Batch) -> Batch:
    table = Batch.stack([
        Batch(arm=arm, n=len(part), mean=part.rew.mean()) for arm, part in by_arm(log).items()
    ])
    table.share = table.n / table.n.sum()
    return table


def main() -> None:
    rng = np.random.default_rng(7)
    policy = UCB(3)
    log = play(policy, make_arms([0.1, 0.5, 0.9], rng), 120)
    log.weight = np.ones(len(log))
    log.weight[:10] = 0.0
    curve = regret(log, 0.9)
    del curve.half
    print(curve.total[-1], sorted(curve.keys()))
    table = summarize(log)
    print(policy.best, table.share, table[table.n.argmax()].arm)
    for mb in log.split(50, shuffle=False, merge_last=True):
        print(len(mb), mb.rew.mean().round(2), (mb.weight * mb.rew).sum().round(1))


if __name__ == "__main__":
    main()
