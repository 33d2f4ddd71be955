"""IQL whose value loss takes the smaller of two frozen target critics, one step for all networks together."""
# wrong: """The target of the value loss takes the online twin critic, so the value loss also trains that critic."""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import BatchRecord, validate


class OfflineBatch(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    obs_next: Tensor
    terminated: Tensor


def make_dataset(seed: int, size: int = 2_000) -> OfflineBatch:
    """Noisy steps of a spring that ends when it is stretched too far."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(0, 0.8, (size, 3)).astype(np.float32)
    act = np.tanh(-0.7 * obs[:, :1] - 0.3 * obs[:, 1:2] + rng.normal(0, 0.6, (size, 1))).astype(np.float32)
    obs_next = obs @ np.array([[0.95, 0, 0.05], [0.1, 0.9, 0], [0, 0.05, 0.9]], np.float32)
    obs_next[:, :1] += 0.4 * act
    obs_next += rng.normal(0, 0.05, obs.shape).astype(np.float32)
    terminated = np.abs(obs_next).max(-1) > 2
    rew = -(obs_next**2).sum(-1) * 0.3 - 3.0 * terminated
    tensors = map(torch.as_tensor, (obs, act, rew.astype(np.float32), obs_next, terminated))
    return OfflineBatch(**dict(zip(("obs", "act", "rew", "obs_next", "terminated"), tensors)))


def net(inputs: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, out))


class IQL(nn.Module):
    def __init__(self, expectile: float = 0.8, beta: float = 3.0, gamma: float = 0.95, tau: float = 0.005) -> None:
        super().__init__()
        self.expectile, self.beta, self.gamma, self.tau = expectile, beta, gamma, tau
        self.qf, self.qf_twin = net(4, 1), net(4, 1)
        self.target_qf, self.target_qf_twin = copy.deepcopy(self.qf), copy.deepcopy(self.qf_twin)
        self.target_qf.requires_grad_(False)
        self.target_qf_twin.requires_grad_(False)
        self.vf, self.mean, self.log_std = net(3, 1), net(3, 1), nn.Parameter(torch.zeros(1))
        self.optimizers = [
            torch.optim.Adam([*self.qf.parameters(), *self.qf_twin.parameters()], 3e-4),
            torch.optim.Adam(self.vf.parameters(), 3e-4),
            torch.optim.Adam([*self.mean.parameters(), self.log_std], 3e-4),
        ]

    @staticmethod
    def q(head: nn.Module, batch: OfflineBatch) -> Tensor:
        return head(torch.cat([batch.obs, batch.act], -1)).squeeze(-1)

    def losses(self, batch: OfflineBatch) -> dict[str, Tensor]:
        q_target = torch.min(self.q(self.target_qf, batch), self.q(self.target_qf_twin, batch))
        # wrong: q_target = torch.min(self.q(self.target_qf, batch), self.q(self.qf_twin, batch))
        v = self.vf(batch.obs).squeeze(-1)
        diff = q_target - v
        weight = torch.where(diff > 0, self.expectile, 1 - self.expectile)
        with torch.no_grad():
            v_next = self.vf(batch.obs_next).squeeze(-1)
            backup = batch.rew + self.gamma * v_next * (~batch.terminated)
        dist = torch.distributions.Normal(torch.tanh(self.mean(batch.obs)), self.log_std.exp())
        logp = dist.log_prob(batch.act).sum(-1)
        advantage_weight = (self.beta * diff.detach()).exp().clamp(max=100)
        return {
            "value": (weight * diff.pow(2)).mean(),
            "qf": (self.q(self.qf, batch) - backup).pow(2).mean(),
            "qf_twin": (self.q(self.qf_twin, batch) - backup).pow(2).mean(),
            "actor": -(advantage_weight * logp).mean(),
        }

    def learn(self, batch: OfflineBatch) -> dict[str, float]:
        losses = self.losses(batch)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        for loss in losses.values():
            loss.backward(retain_graph=True)
        for optimizer in self.optimizers:
            optimizer.step()
        with torch.no_grad():
            for online, target in ((self.qf, self.target_qf), (self.qf_twin, self.target_qf_twin)):
                for p, t in zip(online.parameters(), target.parameters()):
                    t.lerp_(p, self.tau)
        return {name: loss.item() for name, loss in losses.items()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    data = validate(make_dataset(seed), OfflineBatch)
    agent = IQL()

    def draw() -> tuple[OfflineBatch]:
        return (data[torch.randint(len(data), (256,))],)

    return agent.learn, draw
