"""PPO actor-critic with a Gaussian policy for continuous control."""
from __future__ import annotations

import torch
import torch.nn as nn
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.mu = nn.Linear(hidden, act_dim)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def forward(
        self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"], Float[Tensor, "B"]]:
        h = self.trunk(obs)
        dist = Normal(self.mu(h), self.log_std.exp())
        logp = dist.log_prob(act).sum(dim=-1)
        entropy = dist.entropy().sum(dim=-1)
        value = self.value(h).squeeze(-1)
        # wrong: value = self.value(h)  # WRONG
        return logp, entropy, value
        # wrong: return logp, entropy, value  # WRONG


def ppo_loss(
    logp: Float[Tensor, "B"],
    old_logp: Float[Tensor, "B"],
    adv: Float[Tensor, "B"],
    value: Float[Tensor, "B"],
    ret: Float[Tensor, "B"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    ratio = (logp - old_logp).exp()
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    value_loss = 0.5 * (value - ret).pow(2).mean()
    return -surrogate.mean() + 0.5 * value_loss


def main() -> None:
    torch.manual_seed(0)
    net = ActorCritic(obs_dim=11, act_dim=3)
    obs, act = torch.randn(16, 11), torch.randn(16, 3)
    logp, entropy, value = net(obs, act)
    adv, ret = torch.randn(16), torch.randn(16)
    loss = ppo_loss(logp, logp.detach(), adv, value, ret) - 0.01 * entropy.mean()
    loss.backward()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
