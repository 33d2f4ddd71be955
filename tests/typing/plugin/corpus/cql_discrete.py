"""Conservative Q-learning on a fixed data set, with a prioritised sampler."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, PrioBatch, PrioBatchProtocol, RolloutBatch, RolloutBatchProtocol, convert, extend


@dataclass
class CQLConfig:
    gamma: float = 0.95
    alpha: float = 0.5
    double: bool = True
    sizes: tuple[int, ...] = field(default=(32,))


def make_dataset(n: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(n + 1, 3)).astype(np.float32)
    act = rng.integers(0, 3, size=n)
    ended = np.arange(n) % 20 == 19
    return RolloutBatch(
        obs=obs[:-1], obs_next=obs[1:], act=act, rew=obs[np.arange(n), act], terminated=ended, truncated=~ended & False, info=Batch()
    )


class PrioritySampler:
    def __init__(self, data: RolloutBatch, seed: int) -> None:
        self.data = data
        self.rng = np.random.default_rng(seed)
        self.priority = np.ones(len(data))

    def sample(self, size: int) -> tuple[PrioBatch, np.ndarray]:
        p = self.priority / self.priority.sum()
        index = self.rng.choice(len(self.data), size=size, p=p)
        weight = (len(self.data) * p[index]) ** -0.5
        return extend(self.data[index], PrioBatch, weight=weight), index
        #! misspelt-keyword: return extend(self.data[index], PrioBatch, weights=weight), index

    def update(self, index: np.ndarray, td: np.ndarray) -> None:
        self.priority[index] = np.abs(td) + 1e-3


class CQL:
    def __init__(self, cfg: CQLConfig) -> None:
        self.cfg = cfg
        self.q = nn.Sequential(nn.Linear(3, cfg.sizes[0]), nn.ReLU(), nn.Linear(cfg.sizes[-1], 3))
        self.target = nn.Sequential(nn.Linear(3, cfg.sizes[0]), nn.ReLU(), nn.Linear(cfg.sizes[-1], 3))
        self.target.load_state_dict(self.q.state_dict())
        self.optim = torch.optim.Adam(self.q.parameters(), lr=3e-3)

    @torch.no_grad()
    def bootstrap(self, batch: RolloutBatchProtocol[Tensor]) -> Tensor:
        values: Tensor = self.target(batch.obs_next)
        if self.cfg.double:
            best = self.q(batch.obs_next).argmax(-1, keepdim=True)
            value = values.gather(1, best).squeeze(1)
        else:
            value = values.amax(-1)
        return batch.rew + self.cfg.gamma * value * (~batch.terminated).float()
        #! misspelt-read: return batch.rew + self.cfg.gamma * value * (~batch.terminal).float()

    def learn(self, batch: PrioBatchProtocol[Tensor]) -> Batch:
        q_all = self.q(batch.obs)
        chosen = q_all.gather(1, batch.act[:, None]).squeeze(1)
        stats = Batch(td=chosen - self.bootstrap(batch))
        #! batch-for-array: stats = Batch(td=chosen - self.bootstrap(batch.obs_next))
        stats.td_loss = (batch.weight.float() * stats.td.pow(2)).mean()
        #! misspelt-read: stats.td_loss = (batch.weights.float() * stats.td.pow(2)).mean()
        stats.cql_loss = (torch.logsumexp(q_all, -1) - chosen).mean()
        loss = stats.td_loss + self.cfg.alpha * stats.cql_loss
        #! misspelt-read: loss = stats.td_loss + self.cfg.alpha * stats.cql
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        stats.loss = loss.detach()
        stats.td = stats.td.detach()
        return stats


def main() -> None:
    torch.manual_seed(0)
    sampler = PrioritySampler(make_dataset(300, np.random.default_rng(0)), seed=1)
    for cfg in (CQLConfig(), CQLConfig(double=False, alpha=0.0)):
        agent = CQL(cfg)
        for step in range(20):
            sampled, index = sampler.sample(32)
            tensors = convert(sampled, PrioBatch[Tensor])
            #! wrong-kind: tensors = sampled
            stats = agent.learn(tensors)
            #! wrong-stage: stats = agent.learn(convert(sampler.data[index], RolloutBatch[Tensor]))
            sampler.update(index, stats["td"].numpy())
            if step % 10 == 9:
                print(f"{step} loss {float(stats['loss']):.4f}")


if __name__ == "__main__":
    main()
