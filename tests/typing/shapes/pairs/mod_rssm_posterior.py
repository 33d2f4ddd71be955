"""Dreamer-style RSSM world model: one observe step and an imagined rollout."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Normal


class RSSM(nn.Module):
    def __init__(self, deter: int, stoch: int, act_dim: int, embed: int, hidden: int = 48) -> None:
        super().__init__()
        self.inp = nn.Linear(stoch + act_dim, hidden)
        self.cell = nn.GRUCell(hidden, deter)
        self.prior = nn.Linear(deter, 2 * stoch)
        self.post = nn.Linear(deter + embed, 2 * stoch)
        self.reward = nn.Linear(deter + stoch, 1)

    @staticmethod
    def _dist(params: Float[Tensor, "B Z2"]) -> Normal:
        mean, std = params.chunk(2, dim=-1)
        return Normal(mean, F.softplus(std) + 0.1)

    def img_step(
        self, h: Float[Tensor, "B D"], z: Float[Tensor, "B S"], a: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B D"], Normal]:
        x = F.elu(self.inp(torch.cat([z, a], dim=-1)))
        h = self.cell(x, h)
        return h, self._dist(self.prior(h))

    def obs_step(
        self,
        h: Float[Tensor, "B D"],
        z: Float[Tensor, "B S"],
        a: Float[Tensor, "B A"],
        e: Float[Tensor, "B E"],
    ) -> tuple[Float[Tensor, "B D"], Normal, Normal]:
        h, prior = self.img_step(h, z, a)
        post = self._dist(self.post(torch.cat([h, e], dim=-1)))
        # wrong: post = self._dist(self.post(torch.cat([z, e], dim=-1)))  # WRONG
        return h, prior, post


def main() -> None:
    torch.manual_seed(0)
    B, D, S, A, E = 3, 40, 10, 2, 24
    model = RSSM(D, S, A, E)
    h, z = torch.zeros(B, D), torch.zeros(B, S)
    h, prior, post = model.obs_step(h, z, torch.randn(B, A), torch.randn(B, E))
    # wrong: h, prior, post = model.obs_step(h, z, torch.randn(B, A), torch.randn(B, E))  # WRONG
    kl = torch.distributions.kl_divergence(post, prior).sum(-1).mean()
    z = post.rsample()
    rewards = []
    for _ in range(5):
        h, prior = model.img_step(h, z, torch.randn(B, A))
        z = prior.rsample()
        rewards.append(model.reward(torch.cat([h, z], -1)).squeeze(-1))
    print("kl", kl.item(), "return", torch.stack(rewards).sum(0).tolist())


if __name__ == "__main__":
    main()
