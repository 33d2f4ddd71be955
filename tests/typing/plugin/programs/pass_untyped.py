"""Functions without annotations, whose bodies are checked all the same."""
# mypy: check-untyped-defs, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

import numpy as np
import torch

from typedbatch import Batch, RolloutBatchProtocol, extend
from typedbatch import BatchWithReturnsProtocol as WithReturns


def learn(batch: RolloutBatchProtocol) -> float:
    return float(batch.rew.sum())


def collect(env_count=2, steps=3):
    parts = []
    for step in range(steps):
        part = Batch(obs=np.zeros((env_count, 4)), act=[0] * env_count, info={})
        part.rew = np.full(env_count, step)
        part.obs_next = part.obs + 1
        part.terminated = part.truncated = np.zeros(env_count, bool)
        learn(part)
        parts.append(part)
    whole = Batch.cat(parts)
    learn(whole)
    return whole


def process(batch):
    batch.adv = batch.rew - batch.rew.mean()
    batch["v_s"] = batch.adv
    print(batch.whatever if "whatever" in batch else batch.v_s)
    out = Batch(batch)
    out["extra"] = 1
    print(out["extra"], out["rew"])
    own = Batch(obs=batch.obs, rew=batch.rew)
    own.extra = own.rew
    print(own.extra, own["rew"], own.obs)
    return batch


def update(batch, **options):
    settings = Batch(**options)
    settings["lr"] = 0.1
    log = Batch(loss=[], lr=settings["lr"])
    for mini in batch.split(2):
        log.loss = [*log.loss.tolist(), float(mini.adv.mean())]
    log.steps = len(log.loss)
    return {"loss": log.loss.sum(), "steps": log.steps}


def nested(flag):
    out = Batch(net={"actor": torch.zeros(2)})
    if flag:
        out.net.critic = torch.ones(2)
        return out.net.critic
    del out.net.actor
    return out.net


def from_nothing():
    b = Batch()
    b.obs = np.zeros(2)
    b.act, b.rew = process_pair(b)
    return b.act + b.rew


def process_pair(b):
    return b.obs, b.obs


class Collector:
    def __init__(self, env):
        self.env = env
        self.data = Batch(obs={}, act={}, rew=np.zeros(1))
        self.reset()

    def reset(self):
        self.data.obs = np.zeros(2)
        self.data.update(state=None, policy=Batch())

    def collect(self, steps):
        for _ in range(steps):
            self.data.act = self.data.obs
            self.data.update(obs_next=self.data.obs, done=[False])
            self.data.policy.hidden = self.data.state
            self.data.obs = self.data.obs_next
        return self.data.rew, self.data.done, self.data.policy.hidden


def returns(batch: RolloutBatchProtocol):
    full = extend(batch, WithReturns, returns=batch.rew)
    return full.returns


def main():
    whole = collect()
    process(whole)
    update(whole, gamma=0.9)
    nested(True), nested(False), from_nothing(), Collector(None).collect(2), returns(whole)


main()
