import torch
from jaxtyping import Float
from torch import Tensor


def as_vector(x: Float[Tensor, "N"] | float, n: int) -> Float[Tensor, "N"]:
    if isinstance(x, Tensor):
        return x
    return torch.full((n,), x)

def shaped(rew: Float[Tensor, "N"], coef: Float[Tensor, "N"] | float) -> Float[Tensor, "N"]:
    return rew * coef + as_vector(coef, rew.size(0))

def main() -> None:
    assert shaped(torch.ones(4), 0.5).shape == (4,)
    assert shaped(torch.ones(4), torch.ones(4)).shape == (4,)


if __name__ == "__main__":
    main()
