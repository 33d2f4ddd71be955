"""Players are Batches in a dict; ratings and history are written as matches are played."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from typedbatch import Batch, cat

from arena.game import SEATS, play, softmax


class League:
    def __init__(self, names: list[str], elo_k: float = 16, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.k = elo_k
        self.players: dict[str, Batch] = {}
        self.results: deque[Batch] = deque(maxlen=50)
        for i, name in enumerate(names):
            p = Batch(logits=self.rng.normal(size=3), rating=1000.0, games=0)
            if i == 0:
                p.frozen = True
            self.players[name] = p
        self.table = Batch(matches=0, upsets=0)

    def expected(self, a: Batch, b: Batch) -> float:
        return 1 / (1 + 10 ** (float(b["rating"] - a["rating"]) / 400))
        #! misspelt-item: return 1 / (1 + 10 ** (float(b["elo"] - a["elo"]) / 400))

    def match(self, one: str, two: str, rounds: int = 12) -> Batch:
        a, b = self.players[one], self.players[two]
        game = play(a.logits, b.logits, rounds, self.rng)
        final: Batch = game["score"]
        outcome = 0.5 if final["home"] == final["away"] else float(final["home"] > final["away"])
        exp = self.expected(a, b)
        delta = self.k * (outcome - exp)
        a.rating += delta
        b.rating -= delta
        #! misspelt-read: b.ratng -= delta
        for p in (a, b):
            p.games += 1
        res = Batch(one=one, two=two, outcome=outcome, expected=exp)
        res.upset = outcome == 1.0 and exp < 0.5
        self.table.matches += 1
        self.table.upsets += int(res.upset)
        self.results.append(res)
        for seat, p in zip(SEATS, (a, b), strict=True):
            if "frozen" not in p:
                p.memory = game[seat] if "memory" not in p else cat([p.memory, game[seat]])
        return res

    def train(self, name: str, lr: float) -> Batch | None:
        p = self.players[name]
        if p.get("frozen", False):
            return None
        mem = Batch(p.memory)
        mem.adv = mem.rew - mem.rew.mean()
        #! misspelt-read: mem.adv = mem.reward - mem.reward.mean()
        onehot = np.eye(3)[mem.act]
        grad = (mem.adv[:, None] * (onehot - softmax(p.logits))).mean(0)
        p.logits = p.logits + lr * grad
        info = Batch(norm=np.linalg.norm(grad), rows=len(mem))
        info.beaten = float((mem.other == (mem.act + 2) % 3).mean())
        #! old-name: info.beaten = float((mem.opponent == (mem.act + 2) % 3).mean())
        del p.memory
        return info

    def ranking(self) -> list[tuple[str, Any]]:
        return sorted(((n, round(float(p.rating), 1)) for n, p in self.players.items()), key=lambda x: -x[1])
