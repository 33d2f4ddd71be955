"""GRPO: group-normalised rewards and a clipped token-level policy loss with KL."""
from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor


def group_advantages(rewards: Float[Tensor, "P G"], eps: float = 1e-4) -> Float[Tensor, "P G"]:
    """Normalise each prompt's G completions against one another."""
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + eps)


def k3_kl(logp: Float[Tensor, "N T"], ref: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
    log_ratio = ref - logp
    return log_ratio.exp() - log_ratio - 1


def grpo_loss(
    logp: Float[Tensor, "N T"],
    old_logp: Float[Tensor, "N T"],
    ref_logp: Float[Tensor, "N T"],
    adv: Float[Tensor, "N"],
    mask: Bool[Tensor, "N T"],
    clip: float = 0.2,
    beta: float = 0.04,
) -> Float[Tensor, ""]:
    ratio = (logp - old_logp).exp()
    adv = adv.unsqueeze(1)
    # wrong: adv = adv.unsqueeze(0)  # WRONG
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    # wrong: surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)  # WRONG
    per_token = -surrogate + beta * k3_kl(logp, ref_logp)
    lengths = mask.sum(dim=1).clamp(min=1)
    return ((per_token * mask).sum(dim=1) / lengths).mean()


def main() -> None:
    torch.manual_seed(0)
    P, G, T = 3, 4, 12
    rewards = torch.rand(P, G)
    adv = rearrange(group_advantages(rewards), "p g -> (p g)")
    logp = -torch.rand(P * G, T)
    old = logp + 0.05 * torch.randn(P * G, T)
    ref = logp + 0.05 * torch.randn(P * G, T)
    mask = torch.arange(T)[None] < torch.randint(3, T + 1, (P * G, 1))
    print("grpo", grpo_loss(logp, old, ref, adv, mask).item())


if __name__ == "__main__":
    main()
