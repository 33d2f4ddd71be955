"""PPO on plain batches, with the slips that a refactoring leaves behind."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Distribution

from typedbatch import (
    Batch,
    BatchWithAdvantagesProtocol,
    BatchWithReturnsProtocol,
    LogpOldProtocol,
    RolloutBatchProtocol,
)

Array = NDArray[Any]


def gae(rew: Array, value: Array) -> tuple[Array, Array]:
    return rew - value, rew


def learn(batch: RolloutBatchProtocol) -> None: ...
def learn_returns(batch: BatchWithReturnsProtocol) -> None: ...
def learn_advantages(batch: BatchWithAdvantagesProtocol) -> None: ...
def surrogate(batch: LogpOldProtocol[Tensor]) -> Tensor: ...  # type: ignore[empty-body]


def misspelt() -> None:
    batch = Batch(obs=np.zeros((8, 4)), act=np.zeros(8, int), rew=np.ones(8), terminated=np.zeros(8, bool))
    print(batch.obs.shape, batch.act.dtype, batch.rew.sum())
    print(batch.reward)  # E: misspelt-read: reward
    print(batch["actions"])  # E: misspelt-item: actions
    print(batch.termianted.any())  # E: misspelt-read: termianted
    batch.v_s = np.zeros(8)
    batch.adv, batch.returns = gae(batch.rew, batch.v_s)
    print(batch.advantage)  # E: misspelt-read: advantage
    batch.adv = batch.adv - batch.adv.mean()
    batch.returns = batch.retruns / 2  # E: misspelt-read: retruns
    print(batch.returns + batch.vs)  # E: misspelt-read: vs
    print(batch[:4].adv, batch[:4].advs)  # E: misspelt-read: advs


def too_early() -> None:
    batch = Batch(obs=np.zeros((8, 4)), act=np.zeros(8, int), rew=np.ones(8), info=Batch())
    learn(batch)  # E: missing-field: obs_next
    batch.obs_next = batch.obs
    learn(batch)
    batch.terminated = np.zeros(8, bool)
    learn(batch)
    batch.truncated = np.zeros(8, bool)
    learn(batch)
    learn_returns(batch)  # E: missing-field: returns
    print(batch.adv)  # E: read-before-write: adv
    batch.adv, batch.returns = gae(batch.rew, batch.rew)
    learn_returns(batch)
    learn_advantages(batch)  # E: missing-field: v_s
    batch.v_s = np.zeros(8)
    learn_advantages(batch)


def removed() -> None:
    batch = Batch(obs=np.zeros(8), act=np.zeros(8), rew=np.ones(8), info=Batch(), obs_next=np.zeros(8))
    batch.terminated = batch.truncated = np.zeros(8, bool)
    learn(batch)
    del batch.obs_next
    learn(batch)  # E: missing-field: obs_next
    print(batch.obs_next)
    rew = batch.pop("rew")
    print(rew.sum())
    print(batch.rew.sum())  # E: read-after-pop: rew
    batch.rew = rew
    print(batch.rew.sum())


def stages(policy: torch.nn.Module) -> Tensor:
    b = Batch(obs=np.ones((8, 4), np.float32), act=np.zeros(8, np.int64), rew=np.ones(8), info=Batch())
    b.obs_next, b.terminated, b.truncated = b.obs, np.zeros(8, bool), np.zeros(8, bool)
    b.returns = b.adv = b.v_s = np.ones(8)
    b.logp_old = np.zeros(8)
    surrogate(b)  # E: wrong-stage
    t = b.to_torch()
    learn(t)
    print(surrogate(t))
    print(b.adv.clamp(0, 1))  # E: tensor-method-on-array: clamp
    print(t.adv.astype(np.float32))  # E: array-method-on-tensor: astype
    dist: Distribution = Categorical(logits=policy(t.obs))
    t.logp = dist.log_prob(t.act)
    print(b.logp)  # E: other-batch: logp
    for mini in t.split(4):
        print(mini.logp, mini.adv)
        print(mini.log_prob)  # E: misspelt-read: log_prob
        surrogate(mini.to_numpy())
    return t.entropy  # E: misspelt-read: entropy


def made_without(steps: int) -> RolloutBatchProtocol:
    batch = Batch(obs=np.zeros(steps), act=np.zeros(steps), rew=np.zeros(steps), info=Batch())
    batch.obs_next, batch.terminated = batch.obs, np.zeros(steps)
    return batch  # E: returned-too-little: truncated


def returned_early(steps: int) -> BatchWithReturnsProtocol:
    batch = Batch(obs=np.zeros(steps), act=np.zeros(steps), rew=np.zeros(steps), info=Batch())
    batch.obs_next, batch.terminated, batch.truncated = batch.obs, np.zeros(steps), np.zeros(steps)
    if not steps:
        return batch  # E: returned-too-little: returns
    batch.returns = batch.rew[::-1].cumsum()
    return batch


def yielded(steps: int) -> Iterator[RolloutBatchProtocol]:
    for _ in range(steps):
        batch = Batch(obs=np.zeros(1), obs_next=np.zeros(1), act=[0], rew=[1.0], terminated=[False])
        batch.truncated = [False]
        yield batch  # E: yielded-too-little: info
        batch.info = Batch()
        yield batch


class Policy:
    def __init__(self) -> None:
        self.stats = Batch(loss=0.0, clip=0.2)

    def update(self, steps: int) -> None:
        out = Batch(policy_loss=torch.zeros(()), value_loss=torch.zeros(()))
        out.entropy = torch.zeros(())
        loss = out.policy_loss + 0.5 * out.vf_loss  # E: misspelt-read: vf_loss
        print(loss, out.entropy, out.kl)  # E: misspelt-read: kl
        self.stats.loss = float(out.policy_loss)
        self.stats.steps = steps

    def report(self) -> list[object]:
        print(self.stats.los)  # E: misspelt-read-of-self: los
        return [self.stats.loss, self.stats.steps, self.stats["clip"]]


def wrong_values() -> None:
    batch = Batch(obs=["text"], act=np.zeros(1), rew=None, info=Batch(), obs_next=np.zeros(1), terminated=[False])
    batch.truncated = [False]
    learn(batch)  # E: wrong-kind: rew
    batch.rew = torch.ones(1)
    learn(batch)  # E: wrong-kind: rew
    batch.rew = {"extrinsic": np.ones(1)}
    learn(batch)  # E: wrong-kind: rew
    batch.rew = np.ones(1)
    learn(batch)
