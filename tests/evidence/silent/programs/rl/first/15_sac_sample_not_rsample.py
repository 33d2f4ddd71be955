"""SAC on Pendulum in the style of spinning-up: squashed Gaussian, two critics, fixed alpha."""
# wrong: """The action is drawn by sample() instead of rsample(): no gradient flows from the critics to the actor."""
# `Normal.sample()` cuts the reparameterization; the actor only learns from its entropy (no single source).
from __future__ import annotations

import itertools
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional as F

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)
ACT_LIMIT = 2.0


class SquashedGaussianActor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mu_layer, self.log_std_layer = nn.Linear(hidden, act_dim), nn.Linear(hidden, act_dim)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        net_out = self.net(obs)
        pi_distribution = Normal(self.mu_layer(net_out), self.log_std_layer(net_out).clamp(-20, 2).exp())
        pi_action = pi_distribution.rsample()
        # wrong: pi_action = pi_distribution.sample()
        logp_pi = pi_distribution.log_prob(pi_action).sum(dim=-1)
        logp_pi -= (2 * (np.log(2) - pi_action - F.softplus(-2 * pi_action))).sum(dim=1)
        return ACT_LIMIT * torch.tanh(pi_action), logp_pi


class QFunction(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.q = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.q(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pi, self.q1, self.q2 = SquashedGaussianActor(3, 1), QFunction(3, 1), QFunction(3, 1)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=self.pi(torch.as_tensor(batch.obs))[0])


def setup(seed: int = 0):
    torch.manual_seed(seed)
    gamma, polyak, alpha = 0.99, 0.995, 0.2
    ac = ActorCritic()
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
    pi_optimizer = torch.optim.Adam(ac.pi.parameters(), lr=1e-3)
    q_optimizer = torch.optim.Adam(q_params, lr=1e-3)

    def compute_loss_q(data: RolloutBatch[Tensor]) -> Tensor:
        q1, q2 = ac.q1(data.obs, data.act), ac.q2(data.obs, data.act)
        with torch.no_grad():
            a2, logp_a2 = ac.pi(data.obs_next)
            q_pi_targ = torch.min(ac_targ.q1(data.obs_next, a2), ac_targ.q2(data.obs_next, a2))
            backup = data.rew + gamma * (1 - data.terminated.float()) * (q_pi_targ - alpha * logp_a2)
        return ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()

    def compute_loss_pi(data: RolloutBatch[Tensor]) -> Tensor:
        pi, logp_pi = ac.pi(data.obs)
        q_pi = torch.min(ac.q1(data.obs, pi), ac.q2(data.obs, pi))
        return (alpha * logp_pi - q_pi).mean()

    def update(data: RolloutBatch[Tensor]) -> dict[str, float]:
        q_optimizer.zero_grad()
        loss_q = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()
        for p in q_params:
            p.requires_grad = False
        pi_optimizer.zero_grad()
        loss_pi = compute_loss_pi(data)
        loss_pi.backward()
        pi_optimizer.step()
        for p in q_params:
            p.requires_grad = True
        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), ac_targ.parameters(), strict=True):
                p_targ.data.mul_(polyak)
                p_targ.data.add_((1 - polyak) * p.data)
        return {"q": loss_q.item(), "pi": loss_pi.item()}

    buffer = VectorReplayBuffer[RolloutBatch](4_000, 2, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), ac.act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=2)
        return (buffer.sample(100, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return update, draw
