"""SAC with learned temperature on Pendulum, in one class."""
# wrong: """The action of the target is drawn for `obs`, and then valued at `obs_next`."""
# Source: wrong data wired in the Bellman target (a copy of the actor's line `self.actor(batch.obs)`).
from __future__ import annotations

import copy
import math

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, Losses

torch.set_num_threads(1)


def mlp(inputs: int, outputs: int, hidden: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Actor(nn.Module):
    """Twice the hyperbolic tangent of a Gaussian."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(3, 2)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.body(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        x = dist.rsample()
        logp = dist.log_prob(x) - 2 * (math.log(2) - x - nn.functional.softplus(-2 * x)) - math.log(2.0)
        return 2.0 * torch.tanh(x), logp.sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([mlp(4, 1), mlp(4, 1)])

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        x = torch.cat([obs, act], -1)
        return torch.cat([head(x) for head in self.heads], -1)


class SAC:
    def __init__(self, gamma: float = 0.98, tau: float = 0.01, lr: float = 7e-4) -> None:
        self.gamma, self.tau, self.target_entropy = gamma, tau, -1.0
        self.actor, self.critic = Actor(), Critic()
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), lr)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), lr)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.actor(torch.as_tensor(batch.obs))[0])

    @torch.no_grad()
    def target(self, batch: RolloutBatch[Tensor]) -> Tensor:
        act_next, logp_next = self.actor(batch.obs_next)
        # wrong: act_next, logp_next = self.actor(batch.obs)
        q_next = self.critic_target(batch.obs_next, act_next).amin(-1, keepdim=True)
        soft = q_next - self.log_alpha.exp() * logp_next
        return batch.rew[:, None] + self.gamma * (~batch.terminated)[:, None] * soft

    def update(self, batch: RolloutBatch[Tensor]) -> Losses:
        critic_loss = (self.critic(batch.obs, batch.act) - self.target(batch)).pow(2).sum(-1).mean()
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()

        act, logp = self.actor(batch.obs)
        self.critic.requires_grad_(False)
        actor_loss = (self.log_alpha.exp().detach() * logp - self.critic(batch.obs, act).amin(-1, keepdim=True)).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward()
        self.actor_optim.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        self.alpha_optim.zero_grad()
        alpha_loss.backward()
        self.alpha_optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.critic_target.parameters(), self.critic.parameters(), strict=True):
                slow.lerp_(fast, self.tau)
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "alpha": self.log_alpha.exp().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    sac = SAC()
    buffer = VectorReplayBuffer[RolloutBatch](10_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync"), sac.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=400, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(128, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return sac.update, draw
