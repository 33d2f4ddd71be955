"""PPO on plain batches: collect, estimate advantages, cut into minibatches, update."""

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchWithAdvantagesProtocol,
    BatchWithReturnsProtocol,
    LogpOldProtocol,
    RolloutBatchProtocol,
    cat,
    convert,
    extend,
)

Array = NDArray[Any]


def gae(rew: Array, value: Array, done: Array, gamma: float = 0.99, lam: float = 0.95) -> tuple[Array, Array]:
    adv = np.zeros_like(rew)
    last = 0.0
    for t in reversed(range(len(rew))):
        following = value[t + 1] if t + 1 < len(value) else 0.0
        delta = rew[t] + gamma * following * (1 - done[t]) - value[t]
        last = delta + gamma * lam * (1 - done[t]) * last
        adv[t] = last
    return adv, adv + value


def learn(batch: RolloutBatchProtocol) -> float:
    return float(batch.rew.sum())


def learn_returns(batch: BatchWithReturnsProtocol) -> float:
    return float(batch.returns.mean())


def surrogate(batch: LogpOldProtocol[Tensor], logp: Tensor, clip: float) -> Tensor:
    ratio = (logp - batch.logp_old).exp()
    return -torch.min(ratio * batch.adv, ratio.clamp(1 - clip, 1 + clip) * batch.adv).mean()


def rows(batch: BatchProtocol) -> int:
    return len(batch)


def rollout(steps: int) -> RolloutBatchProtocol:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(steps + 1, 4)).astype(np.float32)
    batch = Batch(obs=obs[:-1], obs_next=obs[1:], act=rng.integers(0, 2, steps), rew=rng.normal(size=steps), info={})
    batch.terminated = np.zeros(steps, bool)
    batch.truncated = np.zeros(steps, bool)
    batch.truncated[-1] = True
    return batch


def step_by_step(steps: int) -> RolloutBatchProtocol:
    obs = np.zeros(4, np.float32)
    taken = []
    for step in range(steps):
        now = Batch(obs=obs, act=step % 2, info=Batch())
        obs = obs + 1
        now.obs_next = obs
        now.rew, now.terminated, now.truncated = 1.0, False, step == steps - 1
        taken.append(now)
    return Batch.stack(taken)


def with_advantages(steps: int) -> BatchWithAdvantagesProtocol:
    batch = Batch(obs=np.zeros((steps, 4)), act=np.zeros(steps, int), rew=np.ones(steps), info=Batch())
    batch.obs_next = np.zeros((steps, 4))
    batch.done = np.zeros(steps, bool)
    batch.terminated = batch.truncated = batch.done
    batch.v_s = np.linspace(0, 1, steps)
    batch.adv, batch.returns = gae(batch.rew, batch.v_s, batch.done)
    batch.adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
    learn(batch)
    learn_returns(batch)
    del batch.done
    return batch


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)
        self.stats = Batch(loss=[], clip=0.2)
        self.last = Batch()

    def dist(self, obs: Tensor) -> Distribution:
        return Categorical(logits=self.actor(obs.float()))

    def prepare(self, batch: BatchWithAdvantagesProtocol) -> LogpOldProtocol[Tensor]:
        tensors = convert(batch, BatchWithAdvantagesProtocol[Tensor])
        with torch.no_grad():
            logp = self.dist(tensors.obs).log_prob(tensors.act)
        return extend(tensors, LogpOldProtocol[Tensor], logp_old=logp)

    def update(self, ready: LogpOldProtocol[Tensor], epochs: int) -> list[float]:
        losses = []
        for _ in range(epochs):
            for mini in ready.split(4, rng=0):
                out = Batch(dist=self.dist(mini.obs), value=self.critic(mini.obs.float()).squeeze(-1))
                out.logp = out.dist.log_prob(mini.act)
                out.policy_loss = surrogate(mini, out.logp, float(self.stats.clip))
                out.value_loss = (out.value - mini.returns).pow(2).mean()
                out.entropy = out.dist.entropy().mean()
                loss = out.policy_loss + 0.5 * out.value_loss - 0.01 * out.entropy
                loss.backward()
                losses.append(float(loss.detach()))
                self.last = out
        self.stats.loss = losses
        self.stats.epochs = epochs
        return losses

    def report(self) -> dict[str, float]:
        return {"loss": float(self.stats.loss.mean()), "epochs": float(self.stats.epochs)}


def plain_all_the_way(policy: Policy, steps: int) -> float:
    b = Batch(obs=np.ones((steps, 4), np.float32), act=np.zeros(steps, np.int64), rew=np.ones(steps, np.float32))
    b.obs_next, b.info = b.obs + 1, Batch()
    b.terminated = b.truncated = np.zeros(steps, bool)
    with torch.no_grad():
        t = b.to_torch()
        assert_type(t.act, Tensor)
        t.v_s = policy.critic(t.obs.float()).flatten()
        t.logp_old = policy.dist(t.obs).log_prob(t.act)
    back = t.to_numpy()
    back.adv, back.returns = gae(back.rew, back.v_s, back.terminated)
    back.adv -= back.adv.mean()
    learn_returns(back)
    ready = back.to_torch(dtype=torch.float32)
    ready.act = ready.act.long()
    total = 0.0
    for mini in ready.split(3, shuffle=False, merge_last=True):
        logp = policy.dist(mini.obs).log_prob(mini.act)
        total += float(surrogate(mini, logp, 0.2).detach())
        mini.seen = True
        total += float(mini.seen)
    return total


def minibatches(batch: BatchWithAdvantagesProtocol) -> Iterator[BatchWithAdvantagesProtocol]:
    for _ in range(2):
        yield from batch.split(2)


def epochs(steps: int) -> Iterator[RolloutBatchProtocol]:
    for epoch in range(3):
        batch = Batch(obs=np.zeros(steps), act=np.zeros(steps), rew=np.full(steps, epoch), info=Batch())
        batch.obs_next = batch.obs
        batch.terminated = np.zeros(steps)
        batch.truncated = np.ones(steps)
        yield batch


def early_stop(batch: BatchWithAdvantagesProtocol, target: float) -> int:
    done = 0
    for done, mini in enumerate(batch.split(2)):
        info = Batch(kl=mini.adv.mean() ** 2, size=len(mini))
        if float(info.kl) > target:
            info.stopped = True
            print("stopped", info.stopped, info.kl, info.size)
            break
    return done


def main() -> None:
    policy = Policy()
    whole = cat([rollout(3), rollout(4)])
    assert rows(whole) == 7
    assert rows(step_by_step(5)) == 5
    assert learn(step_by_step(5)) == 5
    ready = policy.prepare(with_advantages(8))
    assert len(policy.update(ready, 2)) == 4
    assert policy.report()["epochs"] == 2
    plain_all_the_way(policy, 7)
    assert len(list(minibatches(with_advantages(4)))) == 4
    assert [learn(batch) for batch in epochs(2)] == [0, 2, 4]
    early_stop(with_advantages(6), 0.0)


main()
