"""Tabular Q-learning in a grid world: everything is an open batch, from env to statistics."""
from __future__ import annotations

import numpy as np

from typedbatch import Batch

MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


class Grid:
    def __init__(self, size: int) -> None:
        self.size = size
        self.state = Batch()
        self.state.pos = np.zeros(2, int)
        self.state.steps = 0

    def reset(self) -> Batch:
        self.state.pos = np.zeros(2, int)
        self.state.steps = 0
        return Batch(pos=self.state.pos.copy())

    def step(self, act: int) -> Batch:
        self.state.pos = np.clip(self.state.pos + MOVES[act], 0, self.size - 1)
        self.state.steps += 1
        out = Batch(obs=Batch(pos=self.state.pos.copy()))
        out.terminated = bool((self.state.pos == self.size - 1).all())
        out.truncated = bool(self.state.steps >= 60)
        out.rew = 1.0 if out.terminated else -0.01
        out.info = Batch(steps=self.state.steps)
        return out


class Table:
    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.q = Batch(table=np.zeros((size, size, 4)), visits=np.zeros((size, size, 4), int))
        self.rng = rng
        self.eps = 0.3

    def act(self, obs: Batch) -> int:
        if self.rng.random() < self.eps:
            return int(self.rng.integers(4))
        x, y = obs.pos
        row = self.q.table[x, y]
        return int(self.rng.choice(np.flatnonzero(row == row.max())))

    def learn(self, obs: Batch, act: int, out: Batch) -> float:
        values = self.q.table
        here = (obs.pos[0], obs.pos[1], act)
        best = 0.0 if out.terminated else values[out.obs.pos[0], out.obs.pos[1]].max()
        error = float(out.rew + 0.95 * best - values[here])
        values[here] += 0.5 * error
        self.q.visits[here] += 1
        return error


def episode(grid: Grid, table: Table) -> Batch:
    obs = grid.reset()
    stats = Batch(length=0, ret=0.0)
    stats.error = Batch(total=0.0)
    while True:
        act = table.act(obs)
        out = grid.step(act)
        stats.error.total += abs(table.learn(obs, act, out))
        stats.ret += out.rew
        stats.length = out.info.steps
        if out.terminated or out.truncated:
            stats.reached = bool(out.terminated)
            return stats
        obs = out.obs


def main() -> None:
    rng = np.random.default_rng(0)
    grid, table = Grid(4), Table(4, rng)
    log: list[Batch] = []
    for number in range(120):
        stats = episode(grid, table)
        stats.number = number
        stats.error.mean = stats.error.total / stats.length
        log.append(stats)
        table.eps *= 0.98
    history = Batch.stack(log)
    for part in history.split(40, shuffle=False):
        part.block = part.number // 40
        print(part.block[0], part.ret.mean().round(2), part.reached.mean().round(2), part.error.mean.mean() >= 0)
    history.smooth = np.convolve(history.ret, np.ones(5) / 5, mode="same")
    good = history[history.smooth > 0.5]
    print(len(good) > 10, table.q.visits.sum() == history.length.sum())


if __name__ == "__main__":
    main()
