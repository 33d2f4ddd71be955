"""A corridor."""

import numpy as np

from legacy_trainer.options import opts


class Corridor:
    size = 5

    def __init__(self):
        self.rng = np.random.default_rng(int(opts.seed))
        self.pos = 0

    def reset(self):
        self.pos = int(self.rng.integers(self.size - 1))
        self.left = int(opts.horizon)
        #! misspelt-read: self.left = int(opts.horizons)
        return self.pos

    def step(self, action):
        self.pos = int(np.clip(self.pos + (1 if action else -1), 0, self.size - 1))
        self.left -= 1
        goal = self.pos == self.size - 1
        return self.pos, float(goal), goal, self.left == 0
