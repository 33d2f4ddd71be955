"""Functions without annotations, whose bodies are checked all the same, and their slips."""
# mypy: check-untyped-defs, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

import numpy as np
import torch

from typedbatch import Batch, RolloutBatchProtocol


def learn(batch: RolloutBatchProtocol): ...


def collect(env_count=2, steps=3):
    parts = []
    for step in range(steps):
        part = Batch(obs=np.zeros((env_count, 4)), act=[0] * env_count, info={})
        part.rew = np.full(env_count, step)
        learn(part)  # E: missing-field: obs_next
        part.obs_next = part.obs + 1
        part.terminated = part.truncated = np.zeros(env_count, bool)
        print(part.reward)  # E: misspelt-read: reward
        learn(part)
        parts.append(part)
    whole = Batch.cat(parts)
    return whole.observation  # E: misspelt-of-cat: observation


def process(batch):
    print(batch.rew, batch.anything)
    out = Batch(obs=batch.obs)
    out.adv = batch.rew - batch.rew.mean()
    print(out.advantage)  # E: misspelt-read: advantage
    return out.rew  # E: no-such-field: rew


def nested(flag):
    out = Batch(net={"actor": torch.zeros(2)})
    if flag:
        out.net.critic = torch.ones(2)
    print(out.net.actr)  # E: misspelt-nested: actr
    return out.net.critic  # E: maybe-nested: critic


class Collector:
    def __init__(self):
        self.data = Batch(obs=np.zeros(1), rew=np.zeros(1))

    def collect(self):
        self.data.act = self.data.obs
        print(self.data.rew, self.data.act)
        return self.data.rww  # E: misspelt-of-self: rww
