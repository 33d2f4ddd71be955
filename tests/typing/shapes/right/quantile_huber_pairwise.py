import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def quantile_huber(
    pred: Float[Tensor, "N K"], target: Float[Tensor, "N M"], taus: Float[Tensor, "K"]
) -> Float[Tensor, "N"]:
    delta = target[:, None, :] - pred[:, :, None]
    abs_delta = delta.abs()
    huber = torch.where(abs_delta <= 1.0, 0.5 * delta**2, abs_delta - 0.5)
    weight = (taus[None, :, None] - (delta.detach() < 0).float()).abs()
    return (weight * huber).mean(dim=2).sum(dim=1)

def main() -> None:
    taus = (torch.arange(5) + 0.5) / 5
    assert quantile_huber(torch.randn(3, 5), torch.randn(3, 7), taus).shape == (3,)
    assert quantile_huber(torch.randn(3, 5), torch.randn(3, 5), taus).shape == (3,)


if __name__ == "__main__":
    main()
