"""DDPG on Pendulum as plain functions, after spinning-up."""
# wrong: """The critic's values are (N, 1) and the targets (N,), so the error is (N, N): each value is fitted to the mean target."""
# Source: spinning-up's "Critical to ensure q has right shape" at the squeeze of its q-functions.
from __future__ import annotations

from copy import deepcopy

import gymnasium as gym
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class MLPActor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, act_limit: float) -> None:
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, act_dim), nn.Tanh())
        self.act_limit = act_limit

    def forward(self, obs: Tensor) -> Tensor:
        return self.act_limit * self.pi(obs)


class MLPQFunction(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int) -> None:
        super().__init__()
        self.q = nn.Sequential(nn.Linear(obs_dim + act_dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.q(torch.cat([obs, act], dim=-1))


class MLPActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pi, self.q = MLPActor(3, 1, 2.0), MLPQFunction(3, 1)


def ddpg(ac: MLPActorCritic, gamma: float = 0.98, polyak: float = 0.98, pi_lr: float = 1e-3, q_lr: float = 1e-3):
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    pi_optimizer = torch.optim.Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = torch.optim.Adam(ac.q.parameters(), lr=q_lr)

    def compute_loss_q(data: RolloutBatch[Tensor]) -> Tensor:
        q = ac.q(data.obs, data.act).squeeze(-1)
        # wrong: q = ac.q(data.obs, data.act)
        with torch.no_grad():
            q_pi_targ = ac_targ.q(data.obs_next, ac_targ.pi(data.obs_next)).squeeze(-1)
            backup = data.rew + gamma * (1 - data.terminated.float()) * q_pi_targ
        return ((q - backup) ** 2).mean()

    def compute_loss_pi(data: RolloutBatch[Tensor]) -> Tensor:
        return -ac.q(data.obs, ac.pi(data.obs)).mean()

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        for data in batch.split(64, rng=torch.default_generator):
            q_optimizer.zero_grad()
            loss_q = compute_loss_q(data)
            loss_q.backward()
            q_optimizer.step()
            for p in ac.q.parameters():
                p.requires_grad = False
            pi_optimizer.zero_grad()
            loss_pi = compute_loss_pi(data)
            loss_pi.backward()
            pi_optimizer.step()
            for p in ac.q.parameters():
                p.requires_grad = True
            with torch.no_grad():
                for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                    p_targ.data.mul_(polyak)
                    p_targ.data.add_((1 - polyak) * p.data)
        return {"loss_q": loss_q.item(), "loss_pi": loss_pi.item()}

    return update


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ac = MLPActorCritic()

    def get_action(batch: ObsBatch) -> ActBatch:
        act = ac.pi(torch.as_tensor(batch.obs))
        return ActBatch(act=(act + 0.3 * torch.randn_like(act)).clamp(-2, 2).numpy())

    collector = Collector(gym.make_vec("Pendulum-v1", 4), get_action)
    collector.reset(seed=seed)
    replay = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector.collect(replay, n_step=256)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(replay, n_step=64)
        return (replay.sample(256, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return ddpg(ac), draw
