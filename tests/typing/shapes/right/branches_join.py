import torch
from jaxtyping import Float
from torch import Tensor


def to_column(x: Float[Tensor, "N"] | Float[Tensor, "N 1"]) -> Float[Tensor, "N 1"]:
    if x.dim() == 1:
        x = x.unsqueeze(-1)
    return x

def loss(values: Float[Tensor, "N 1"], returns: Float[Tensor, "N"], old: Float[Tensor, "N 1"] | None) -> Float[Tensor, ""]:
    target = to_column(returns)
    if old is not None:
        clipped = old + (values - old).clamp(-0.2, 0.2)
        err = torch.maximum((values - target) ** 2, (clipped - target) ** 2)
    else:
        err = (values - target) ** 2
    return err.mean()

def main() -> None:
    v = torch.randn(5, 1)
    assert loss(v, torch.randn(5), None).shape == loss(v, torch.randn(5), v).shape == ()


if __name__ == "__main__":
    main()
