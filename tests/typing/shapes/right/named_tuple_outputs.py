from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor


class Out(NamedTuple):
    logits: Float[Tensor, "N A"]
    value: Float[Tensor, "N"]

class Policy(Protocol):
    def __call__(self, obs: Float[Tensor, "N D"]) -> Out: ...

def random_policy(obs: Float[Tensor, "N D"]) -> Out:
    return Out(torch.zeros(len(obs), 3), obs.new_zeros(obs.size(0)))

def entropy_bonus(policy: Policy, obs: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
    logits, value = policy(obs)
    p = logits.softmax(-1)
    return value - (p * p.log()).sum(-1)

def main() -> None:
    assert entropy_bonus(random_policy, torch.zeros(4, 2)).shape == (4,)


if __name__ == "__main__":
    main()
