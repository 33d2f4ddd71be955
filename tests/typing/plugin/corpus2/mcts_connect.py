"""Tree search for a small take-away game; every node's statistics are a Batch."""

from __future__ import annotations

import math
import random
from typing import Any, Optional

import numpy as np

from typedbatch import Batch, cat, stack

MOVES = (1, 2, 3)


def make_node(stones: int, prior: float = 1.0, parent: Optional[int] = None) -> Batch:
    node = Batch(stones=stones, prior=prior, visits=0, total=0.0, expanded=False)
    if parent is not None:
        node.parent = parent
    return node


def rollout(stones: int, rng: random.Random) -> float:
    turn = 1
    while stones > 0:
        stones -= rng.choice([m for m in MOVES if m <= stones])
        turn = -turn
    return float(-turn)


class Search:
    def __init__(self, stones: int, c_puct: float = 1.4, noise: bool = False) -> None:
        self.nodes: list[Batch] = [make_node(stones)]
        self.children: dict[int, dict[int, int]] = {}
        self.c = c_puct
        self.noise = noise
        self.rng = random.Random(3)
        self.root = self.nodes[0]
        if noise:
            self.root.noise = np.random.default_rng(0).dirichlet([0.5] * 3)

    def puct(self, parent: int, child: int, k: int) -> float:
        p, c = self.nodes[parent], self.nodes[child]
        q = 0.0 if c["visits"] == 0 else -c["total"] / c["visits"]
        #! misspelt-item: q = 0.0 if c["visit"] == 0 else -c["total"] / c["visits"]
        prior = c["prior"]
        if self.noise and parent == 0:
            prior = 0.75 * prior + 0.25 * self.root.noise[k]
        return float(q + self.c * prior * math.sqrt(p["visits"] + 1) / (1 + c["visits"]))

    def select(self) -> list[int]:
        path = [0]
        while self.nodes[path[-1]]["expanded"]:
            kids = self.children[path[-1]]
            if not kids:
                break
            here = path[-1]
            scored = [(self.puct(here, i, k), i) for k, i in enumerate(kids.values())]
            path.append(max(scored)[1])
        return path

    def expand(self, index: int) -> None:
        node = self.nodes[index]
        node.expanded = True
        legal = [m for m in MOVES if m <= node["stones"]]
        self.children[index] = {}
        for m in legal:
            child = make_node(int(node["stones"]) - m, 1 / len(legal), index)
            child.move = m
            child.depth = 1 + (int(node.depth) if "depth" in node else 0)
            self.children[index][m] = len(self.nodes)
            self.nodes.append(child)

    def simulate(self) -> None:
        path = self.select()
        leaf = self.nodes[path[-1]]
        if leaf["stones"] > 0 and leaf["visits"] > 0 and not leaf["expanded"]:
            self.expand(path[-1])
            path.append(next(iter(self.children[path[-1]].values())))
            leaf = self.nodes[path[-1]]
        value = -1.0 if leaf["stones"] == 0 else rollout(int(leaf["stones"]), self.rng)
        for i in reversed(path):
            self.nodes[i].visits += 1
            #! misspelt-read: self.nodes[i].n_visits += 1
            self.nodes[i].total += value
            value = -value

    def policy(self) -> Batch:
        kids = self.children[0]
        rows = Batch(move=list(kids), visits=[int(self.nodes[i].visits) for i in kids.values()])
        rows.pi = rows.visits / rows.visits.sum()
        #! old-name: rows.pi = rows.counts / rows.counts.sum()
        return rows


def self_play(start: int, sims: int, explore: bool) -> Batch:
    steps: list[Batch] = []
    stones, player = start, 0
    while stones > 0:
        search = Search(stones, noise=explore)
        for _ in range(sims):
            search.simulate()
        pol = search.policy()
        pi = np.zeros(3)
        for row in pol:
            pi[int(row["move"]) - 1] = row["pi"]
        step = Batch(stones=stones, player=player, pi=pi)
        if explore:
            step.entropy = float(-(pi[pi > 0] * np.log(pi[pi > 0])).sum())
        step.move = int(np.argmax(pi)) + 1
        steps.append(step)
        stones -= int(step.move)
        #! later-stage: stones -= int(step.z)
        player = 1 - player
    winner = 1 - player
    for s in steps:
        s.z = 1.0 if s.player == winner else -1.0
        #! misspelt-read: s.z = 1.0 if s.to_play == winner else -1.0
    game = stack(steps)
    assert game.z[-1] == 1.0
    return game


def fit(games: list[Batch]) -> dict[int, float]:
    data: Batch = cat(games)
    table: dict[int, float] = {}
    for n in np.unique(data["stones"]):
        here = data[data["stones"] == n]
        table[int(n)] = float(here["z"].mean())
        #! wrong-type: table[int(n)] = float(here["z"].mean(axis=0)[0])
    return table


def main() -> None:
    random.seed(0)
    games: list[Batch] = []
    for g in range(3):
        explore = g != 0
        game = self_play(6 + g, 30, explore)
        summary = Batch(game=g, plies=len(game), first=game["move"][0])
        if explore:
            summary.entropy = game["entropy"].mean()
        games.append(game)
        shown: dict[str, Any] = {k: v.item() for k, v in summary.items()}
        print(shown, summary.plies)
        #! branch-field: print(shown, summary.plies, summary.entropy)
    try:
        data = cat(games)
    except ValueError:
        data = cat(games, missing="pad")
    print("positions", len(data), "mean", data.z.mean())
    #! misspelt-read: print("positions", len(data), "mean", data.value.mean())
    for g2 in games:
        if "entropy" in g2:
            del g2["entropy"]
    print({k: round(v, 2) for k, v in fit(games).items()})
    #! batch-for-array: print({k: round(v, 2) for k, v in fit(data).items()})


if __name__ == "__main__":
    main()
