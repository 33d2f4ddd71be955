import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def n_step(rew: Float[Tensor, "T"], val: Float[Tensor, "T+1"], n: int) -> Float[Tensor, "K"]:
    horizon = len(rew) - n + 1
    out = torch.zeros(horizon)
    for k in range(n):
        out += 0.99**k * rew[k : k + horizon]
    return out + 0.99**n * val[n:]

@jaxtyped(typechecker=beartype)
def two_step(rew: Float[Tensor, "T"], val: Float[Tensor, "T+1"]) -> Float[Tensor, "T-1"]:
    return rew[:-1] + 0.99 * rew[1:] + 0.99**2 * val[2:]

def main() -> None:
    assert n_step(torch.ones(6), torch.zeros(7), 3).shape == (4,)
    assert two_step(torch.ones(6), torch.zeros(7)).shape == (5,)


if __name__ == "__main__":
    main()
