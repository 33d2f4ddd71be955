"""Distributions of policies: of numbers, of classes, of several numbers at once."""

import torch
import torch.distributions as D
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal


def continuous(
    mu: Float[Tensor, "N A"], log_std: Float[Tensor, "A"], act: Float[Tensor, "N A"], adv: Float[Tensor, "N"]
) -> Float[Tensor, "N"]:
    each = Normal(mu, log_std.exp())
    together = Independent(each, 1)
    ratio = (together.log_prob(act) - each.log_prob(act).sum(-1)).exp()
    return ratio * adv + 0.01 * together.entropy() + (each.mean - together.rsample()).square().sum(-1)


def discrete(logits: Float[Tensor, "N K"], act: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    dist, old = Categorical(logits=logits), D.Categorical(probs=torch.softmax(logits, -1))
    draws: Int[Tensor, "3 N"] = dist.sample((3,))
    return dist.log_prob(act) + dist.log_prob(draws).mean(0) + D.kl_divergence(old, dist)


if __name__ == "__main__":
    print(continuous(torch.zeros(4, 2), torch.zeros(2), torch.ones(4, 2), torch.ones(4)).shape)
    print(discrete(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)).shape)
