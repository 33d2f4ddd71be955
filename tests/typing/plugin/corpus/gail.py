"""Adversarial imitation: a discriminator's verdict is the reward of the generator."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchProtocol, BatchWithReturns, BatchWithReturnsProtocol, RolloutBatch, RolloutBatchProtocol, convert, extend


class Pairs(BatchProtocol, Protocol):
    """States and actions, of whatever source."""

    @property
    def obs(self) -> Tensor: ...
    @property
    def act(self) -> Tensor: ...


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optim = torch.optim.Adam(self.parameters(), lr=1e-2)

    def forward(self, pairs: Pairs) -> Tensor:
        one_hot = nn.functional.one_hot(pairs.act, 2).float()
        out: Tensor = self.net(torch.cat([pairs.obs, one_hot], -1))
        return out.squeeze(-1)

    def fit(self, expert: Pairs, learner: Pairs) -> Batch:
        real, fake = self(expert), self(learner)
        out = Batch(acc=torch.cat([real > 0, fake < 0]).float().mean())
        real_loss = nn.functional.softplus(-real).mean()
        out.loss = real_loss + nn.functional.softplus(fake).mean()
        self.optim.zero_grad()
        out.loss.backward()
        #! misspelt-read: out.losses.backward()
        self.optim.step()
        out.loss = out.loss.detach()
        return out

    @torch.no_grad()
    def reward(self, pairs: Pairs) -> np.ndarray:
        return np.asarray(nn.functional.softplus(self(pairs)).numpy())


def demonstrations(n: int, rng: np.random.Generator) -> Batch:
    obs = rng.normal(size=(n, 2)).astype(np.float32)
    return Batch(obs=obs, act=(obs[:, 0] > 0).astype(np.int64))


def rollout(policy: nn.Module, n: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(n + 1, 2)).astype(np.float32)
    with torch.no_grad():
        act = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs[:-1]))).sample().numpy()
    flags = np.zeros(n, bool)
    return RolloutBatch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=np.zeros(n), terminated=flags, truncated=flags.copy(), info=Batch())


def imitation_returns(batch: RolloutBatchProtocol, disc: Discriminator) -> BatchWithReturns:
    pairs = Batch(obs=torch.as_tensor(batch.obs), act=torch.as_tensor(batch.act))
    #! missing-field: pairs = Batch(obs=torch.as_tensor(batch.obs))
    rew = disc.reward(pairs)
    #! wrong-kind: rew = disc.reward(batch)
    return extend(batch, BatchWithReturns, rew=rew, returns=rew - rew.mean())
    #! forgotten-field: return extend(batch, BatchWithReturns, rew=rew)


def improve(policy: nn.Module, optim: torch.optim.Optimizer, batch: BatchWithReturnsProtocol[Tensor]) -> float:
    logp = torch.log_softmax(policy(batch.obs), -1).gather(1, batch.act[:, None]).squeeze(1)
    loss = -(logp * batch.returns).mean()
    #! later-stage: loss = -(logp * batch.adv).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    expert = demonstrations(64, rng)
    expert_pairs = Batch(obs=torch.as_tensor(expert["obs"]), act=torch.as_tensor(expert["act"]))
    #! misspelt-keyword: expert_pairs = Batch(obs=torch.as_tensor(expert["obs"]), action=torch.as_tensor(expert["act"]))
    policy, disc = nn.Linear(2, 2), Discriminator()
    optim = torch.optim.Adam(policy.parameters(), lr=5e-2)
    for step in range(6):
        batch = rollout(policy, 64, rng)
        learner_pairs = convert(batch, RolloutBatch[Tensor])
        out = disc.fit(expert_pairs, learner_pairs)
        scored = imitation_returns(batch, disc)
        tensors = convert(scored, BatchWithReturns[Tensor])
        #! wrong-stage: tensors = convert(batch, BatchWithReturns[Tensor])
        loss = improve(policy, optim, tensors)
        if step % 2:
            print(f"{step} disc {float(out['acc']):.3f} rew {scored.rew.mean():.3f} loss {loss:.4f}")


if __name__ == "__main__":
    main()
