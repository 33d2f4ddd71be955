import math

import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def sample(noise: Float[Tensor, "N A"], out: Float[Tensor, "N 2*A"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N"]]:
    mean, log_std = out.chunk(2, dim=-1)
    log_std = log_std.clamp(-5, 2)
    u = mean + log_std.exp() * noise
    logp = (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
    logp = logp - torch.log(1 - torch.tanh(u) ** 2 + 1e-6).sum(-1)
    return torch.tanh(u), logp

def main() -> None:
    noise = torch.randn(5, 3)
    a, lp = sample(noise, torch.randn(5, 6))
    assert a.shape == (5, 3) and lp.shape == (5,)


if __name__ == "__main__":
    main()
