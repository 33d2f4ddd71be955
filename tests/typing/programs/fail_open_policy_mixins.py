"""Tianshou's policy interface as a mixin hierarchy: process_fn, learn, post_process_fn (torch)."""
from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from typing_extensions import override

from typedbatch import Batch, BatchWithReturns, BatchWithReturnsProtocol, RolloutBatch, RolloutBatchProtocol, extend


class BasePolicy(ABC):
    def __init__(self) -> None:
        self.buffer_stats = Batch()
        self.updates = 0

    @abstractmethod
    def process_fn(self, batch: RolloutBatchProtocol[Tensor]) -> BatchWithReturnsProtocol[Tensor]: ...

    @abstractmethod
    def learn(self, batch: BatchWithReturnsProtocol[Tensor]) -> Batch: ...

    def post_process_fn(self, result: Batch) -> None:
        self.updates += 1
        result.updates = self.updates
        self.buffer_stats.last = result

    def update(self, batch: RolloutBatchProtocol[Tensor]) -> Batch:
        result = self.learn(self.process_fn(batch))
        self.post_process_fn(result)
        return result


class MonteCarlo:
    gamma: float = 0.9

    def process_fn(self, batch: RolloutBatchProtocol[Tensor]) -> BatchWithReturns[Tensor]:
        returns = torch.zeros(len(batch) + 1)
        for t in range(len(batch) - 1, -1, -1):
            alive = (~(batch.terminated[t] | batch.truncated[t])).float()
            returns[t] = batch.rew[t] + self.gamma * returns[t + 1] * alive
        return extend(batch, BatchWithReturns[Tensor], returns=returns[:-1])


class ValuePolicy(MonteCarlo, BasePolicy):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.critic = nn.Linear(dim, 1)
        self.buffer_stats.rew_mean = 0.0

    @override
    def learn(self, batch: BatchWithReturnsProtocol[Tensor]) -> Batch:
        v: Tensor = self.critic(batch.obs)
        loss = (v.squeeze(-1) - batch.returns).pow(2).mean()
        parameters = list(self.critic.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.data.sub_(0.05 * g)
        self.buffer_stats.rew_mean = batch.rew.mean().item()
        result = Batch(loss=loss.item())
        result.value = Batch(mean=v.mean().item(), max=v.max().item())
        return result


class Lazy(BasePolicy):
    @override
    def process_fn(self, batch: RolloutBatchProtocol[Tensor]) -> BatchWithReturnsProtocol[Tensor]:
        return batch  # E: user-wrong-stage

    @override
    def learn(self, batch: BatchWithReturnsProtocol[Tensor]) -> Batch:
        result = Batch()
        result.loss = batch.retruns.mean()  # E: user-misspelt
        return result


def collect(n: int) -> RolloutBatch[Tensor]:
    data = Batch(obs=torch.randn(n + 1, 3))
    data.rew = data.obs[:, 0].clone()
    flags = torch.arange(n) % 8 == 7
    return RolloutBatch[Tensor](
        obs=data.obs[:-1], obs_next=data.obs[1:], act=torch.zeros(n), rew=data.rew[1:],
        terminated=flags, truncated=torch.zeros_like(flags), info=Batch(id=torch.arange(n)),
    )


def plain_update(policy: BasePolicy) -> Batch:
    data = Batch(obs=torch.randn(4, 3), rew=torch.zeros(4))
    data.terminated = data.truncated = torch.zeros(4, dtype=torch.bool)
    return policy.update(data)  # E: user-unchecked


def main() -> None:
    policy = ValuePolicy(3)
    results = [policy.update(collect(32)) for _ in range(4)]
    log = Batch.stack(results)
    print(log.updates, log.value.mean.shape, policy.buffer_stats.last.loss == log.loss[-1])
    print(isinstance(policy.buffer_stats.rew_mean, float), policy.buffer_stats.last.updates)


if __name__ == "__main__":
    main()
