"""PPO on CartPole on top of a frozen encoder of random Fourier features; only two linear heads are trained."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


class Fourier(nn.Module):
    """Stands for a pretrained encoder: parameters, none of which is ever trained."""

    def __init__(self, size: int = 128) -> None:
        super().__init__()
        self.linear = nn.Linear(4, size // 2)
        nn.init.normal_(self.linear.weight, 0, 1.0)
        self.register_buffer("scale", torch.tensor([1.0, 1.0, 5.0, 1.0]))
        self.requires_grad_(False)

    def forward(self, obs: Tensor) -> Tensor:
        x = self.linear(obs * self.scale)
        return torch.cat([x.sin(), x.cos()], -1)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.actor, self.critic = Fourier(), nn.Linear(128, 2), nn.Linear(128, 1)

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(self.encoder(obs)).squeeze(-1)

    def dist(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.actor(self.encoder(obs)))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net = Heads()
    net.encoder.eval()
    optim = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 3e-3)

    def act(batch: ObsBatch) -> Choice:
        dist = net.dist(torch.as_tensor(batch.obs))
        chosen = dist.sample()
        return Choice(act=chosen, logp=dist.log_prob(chosen))

    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), act, record)
    collector.reset(seed=seed)

    def update(rollout: Rollout) -> dict[str, float]:
        batch = extend(add_gae(rollout, net.value, gamma=0.98, lam=0.9), LogpOldBatch[Tensor], logp_old=rollout.logp)
        for _ in range(5):
            for part in batch.split(64, rng=torch.default_generator):
                dist = net.dist(part.obs)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                value = nn.functional.huber_loss(net.value(part.obs), part.returns)
                optim.zero_grad()
                (policy + 0.5 * value).backward()
                optim.step()
        return {"policy": policy.item(), "value": value.item()}

    return update, lambda: (collector.rollout(256),)
