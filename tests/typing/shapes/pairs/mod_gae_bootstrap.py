"""Generalised advantage estimation over vectorised rollouts (time-major)."""
from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def compute_gae(
    rewards: Float[Tensor, "T N"],
    values: Float[Tensor, "T+1 N"],
    dones: Float[Tensor, "T N"],
    gamma: float = 0.99,
    lam: float = 0.95,
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """``values`` carries one bootstrap row at the end."""
    not_done = 1.0 - dones
    deltas = rewards + gamma * values[1:] * not_done - values[:-1]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        running = deltas[t] + gamma * lam * not_done[t] * running
        advantages[t] = running
    returns = advantages + values[:-1]
    # wrong: returns = advantages + values  # WRONG
    return advantages, returns


def normalize(adv: Float[Tensor, "T N"], eps: float = 1e-8) -> Float[Tensor, "T N"]:
    return (adv - adv.mean()) / (adv.std() + eps)


def main() -> None:
    torch.manual_seed(0)
    T, N = 16, 4
    rewards = torch.randn(T, N)
    values = torch.randn(T + 1, N)
    dones = (torch.rand(T, N) < 0.1).float()
    adv, ret = compute_gae(rewards, values, dones)
    print("adv", normalize(adv).std().item(), "ret", ret.mean().item())


if __name__ == "__main__":
    main()
