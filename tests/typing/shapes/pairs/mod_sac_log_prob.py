"""SAC: squashed Gaussian actor, twin critics and the soft Bellman target."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class Actor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.mean = nn.Linear(hidden, act_dim)
        self.log_std = nn.Linear(hidden, act_dim)

    def sample(self, obs: Float[Tensor, "B O"]) -> tuple[Float[Tensor, "B A"], Float[Tensor, "B"]]:
        h = F.relu(self.fc1(obs))
        log_std = self.log_std(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        dist = torch.distributions.Normal(self.mean(h), log_std.exp())
        u = dist.rsample()
        action = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)
        return action, logp.sum(dim=-1)
        # wrong: return action, logp  # WRONG


class TwinQ(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.q2 = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(
        self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def soft_target(
    actor: Actor,
    critic: TwinQ,
    reward: Float[Tensor, "B"],
    next_obs: Float[Tensor, "B O"],
    alpha: float = 0.2,
) -> Float[Tensor, "B"]:
    act, logp = actor.sample(next_obs)
    q1, q2 = critic(next_obs, act)
    return reward + 0.99 * (torch.min(q1, q2) - alpha * logp)


def main() -> None:
    torch.manual_seed(0)
    B, O, A = 12, 3, 1
    actor, critic = Actor(O, A), TwinQ(O, A)
    y = soft_target(actor, critic, torch.randn(B), torch.randn(B, O))
    print("target mean", y.mean().item())


if __name__ == "__main__":
    main()
