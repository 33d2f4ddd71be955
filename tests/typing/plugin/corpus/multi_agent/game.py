"""Two players on a ring of cells; an apple is worth more to the one who is alone on it."""

from __future__ import annotations

import numpy as np

from typedbatch import Batch

CELLS = 6


class Gathering:
    def __init__(self, players: list[str], seed: int) -> None:
        self.players = players
        self.rng = np.random.default_rng(seed)
        self.state = Batch(apple=0, turn=0)
        self.state.where = {name: 0 for name in players}

    def reset(self) -> dict[str, np.ndarray]:
        self.state.apple = self.rng.integers(CELLS)
        self.state.turn = 0
        for name in self.players:
            self.state.where[name] = self.rng.integers(CELLS)
        return self.observe()

    def observe(self) -> dict[str, np.ndarray]:
        seen = {}
        for name in self.players:
            offset = (int(self.state.apple) - int(self.state.where[name])) % CELLS
            #! misspelt-read: offset = (int(self.state.apples) - int(self.state.where[name])) % CELLS
            seen[name] = np.eye(CELLS)[offset]
        return seen

    def step(self, actions: dict[str, int]) -> tuple[dict[str, np.ndarray], dict[str, float], bool]:
        self.state.turn += 1
        for name, action in actions.items():
            self.state.where[name] = (self.state.where[name] + (1 if action else -1)) % CELLS
            #! misspelt-read: self.state.where[name] = (self.state.position[name] + (1 if action else -1)) % CELLS
        there = [name for name in self.players if self.state.where[name] == self.state.apple]
        rewards = {name: (1.0 / len(there) if name in there else -0.1) for name in self.players}
        if there:
            self.state.apple = self.rng.integers(CELLS)
        return self.observe(), rewards, bool(self.state.turn >= 15)
        #! misspelt-read: return self.observe(), rewards, bool(self.state.turns >= 15)
