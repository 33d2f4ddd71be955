"""SAC with twin critics in torch; batches as attributes."""
from __future__ import annotations

from typing import Generic

import torch
from torch import Tensor, nn

from typedbatch import Batch, K_co, RolloutBatch, RolloutBatchProtocol, extend


class SacBatch(RolloutBatch[K_co], Generic[K_co]):
    target: K_co
    entropy: K_co


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


class SAC:
    def __init__(self, obs_dim: int, act_dim: int) -> None:
        self.actor = mlp(obs_dim, act_dim)
        self.critics = [mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)]
        self.log_alpha = torch.zeros(())
        self.last_batch: SacBatch[Tensor] | None = None
        self.stats = Batch(actor=0.0, critics=[0.0, 0.0])

    def q(self, index: int, obs: Tensor, act: Tensor) -> Tensor:
        out: Tensor = self.critics[index](torch.cat([obs, act], 1))
        return out.squeeze(-1)

    def act(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean: Tensor = self.actor(obs)
        noise = torch.randn_like(mean)
        act = torch.tanh(mean + 0.1 * noise)
        logp = -(noise.pow(2)).sum(-1) / 2
        return act, logp

    def prepare(self, batch: RolloutBatchProtocol[Tensor]) -> SacBatch[Tensor]:
        with torch.no_grad():
            act, logp = self.act(batch.obs_next)
            q = torch.min(self.q(0, batch.obs_next, act), self.q(1, batch.obs_next, act))
            alive = (~batch.terminated).float()
            target = batch.rew + 0.99 * alive * (q - self.log_alpha.exp() * logp)
        return extend(batch, SacBatch[Tensor], target=target, entropy=-logp)

    def critic_loss(self, batch: SacBatch[Tensor]) -> Tensor:
        losses = [(self.q(i, batch.obs, batch.act) - batch.target).pow(2).mean() for i in range(2)]
        self.stats.critics = [loss.item() for loss in losses]
        return torch.stack(losses).sum()

    def learn(self, batch: SacBatch[Tensor]) -> float:
        self.last_batch = batch
        loss = self.critic_loss(batch)
        for critic in self.critics:
            parameters = list(critic.parameters())
            grads = torch.autograd.grad(loss, parameters, retain_graph=True)
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter.data.sub_(0.01 * grad)
        self.stats.actor += loss.item()
        self.stats.entropy = batch.entropy.mean().item()
        return loss.item()

    def learn_unprepared(self, batch: RolloutBatch[Tensor]) -> float:
        return self.learn(batch)  # E: user-wrong-stage

    def write_wrong(self, batch: SacBatch[Tensor]) -> None:
        batch.targets = batch.target.clamp(-1, 1)  # E: user-misspelt


def memory(n: int) -> Batch:
    data = Batch(obs=torch.randn(n, 3), obs_next=torch.randn(n, 3), act=torch.rand(n, 2))
    data.rew = data.obs.sum(1)
    data.terminated = torch.zeros(n, dtype=torch.bool)
    data.truncated = torch.zeros(n, dtype=torch.bool)
    data.info = Batch()
    return data


def remember(sac: SAC, data: Batch) -> None:
    sac.last_batch = data  # E: user-unchecked


def main() -> None:
    sac = SAC(3, 2)
    data = memory(64)
    data.rew /= 10
    rollout = RolloutBatch[Tensor](
        obs=data.obs, obs_next=data.obs_next, act=data.act, rew=data.rew,
        terminated=data.terminated, truncated=data.truncated, info=data.info,
    )
    for mb in rollout.split(32):
        print(sac.learn(sac.prepare(mb)) > 0)
    assert sac.last_batch is not None
    print(sac.last_batch.entropy.shape, sac.stats.critics.shape)


if __name__ == "__main__":
    main()
