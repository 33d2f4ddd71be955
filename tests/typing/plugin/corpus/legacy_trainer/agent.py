"""Sarsa with a table."""

import numpy as np

from legacy_trainer.options import opts
from typedbatch import Batch


class Sarsa:
    def __init__(self, n_states):
        self.q = np.zeros((n_states, 2))
        self.rng = np.random.default_rng(int(opts.seed) + 1)
        self.last = Batch(delta=0.0)
        self.episode = Batch(reward=0.0, length=0)

    def act(self, state):
        random = self.rng.random() < opts.explore.eps
        #! misspelt-nested: random = self.rng.random() < opts.explore.epsilon
        if random:
            return int(self.rng.integers(2))
        return int(self.q[state].argmax())

    def observe(self, state, action, reward, after, ended):
        data = Batch(state=state, action=action, reward=reward)
        data.after, data.ended = after, ended
        data.next_action = self.act(after)
        bootstrap = 0.0 if data.ended else self.q[data.after, data.next_action]
        #! old-name: bootstrap = 0.0 if data.done else self.q[data.after, data.next_action]
        data.delta = data.reward + opts.gamma * bootstrap - self.q[data.state, data.action]
        self.q[data.state, data.action] += opts.lr * data.delta
        #! misspelt-read: self.q[data.state, data.action] += opts.lr * data.td
        self.episode.reward += reward
        self.episode.length += 1
        self.last = data

    def finish(self):
        summary = Batch(reward=float(self.episode.reward), length=int(self.episode.length))
        #! misspelt-read: summary = Batch(reward=float(self.episode.rew), length=int(self.episode.length))
        summary.delta = float(self.last.delta)
        self.episode = Batch(reward=0.0, length=0)
        opts.explore.eps = opts.explore.eps * opts.explore.decay
        #! misspelt-nested: opts.explore.eps = opts.explore.eps * opts.explore.decline
        return summary
