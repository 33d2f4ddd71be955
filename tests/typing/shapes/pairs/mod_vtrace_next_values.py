"""V-trace targets and policy-gradient advantages (IMPALA)."""
from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class VTrace(NamedTuple):
    vs: Float[Tensor, "T B"]
    pg_advantages: Float[Tensor, "T B"]


@torch.no_grad()
def vtrace(
    log_rhos: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    rewards: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    bootstrap: Float[Tensor, "B"],
    clip_rho: float = 1.0,
) -> VTrace:
    rhos = log_rhos.exp()
    clipped = rhos.clamp(max=clip_rho)
    cs = rhos.clamp(max=1.0)
    next_values = torch.cat([values[1:], bootstrap[None, :]], dim=0)
    # wrong: next_values = torch.cat([values, bootstrap[None, :]], dim=0)  # WRONG
    deltas = clipped * (rewards + discounts * next_values - values)
    # wrong: deltas = clipped * (rewards + discounts * next_values - values)  # WRONG

    acc = torch.zeros_like(bootstrap)
    out = []
    for t in range(values.size(0) - 1, -1, -1):
        acc = deltas[t] + discounts[t] * cs[t] * acc
        out.append(acc)
    vs = torch.stack(out[::-1]) + values

    next_vs = torch.cat([vs[1:], bootstrap.unsqueeze(0)], dim=0)
    pg = clipped * (rewards + discounts * next_vs - values)
    return VTrace(vs, pg)


def main() -> None:
    torch.manual_seed(0)
    T, B = 10, 3
    result = vtrace(
        log_rhos=0.1 * torch.randn(T, B),
        discounts=torch.full((T, B), 0.99),
        rewards=torch.randn(T, B),
        values=torch.randn(T, B),
        bootstrap=torch.randn(B),
    )
    print("vs", result.vs.mean().item(), "pg", result.pg_advantages.abs().mean().item())


if __name__ == "__main__":
    main()
