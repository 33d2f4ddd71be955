import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def ensemble_loss(qs: Float[Tensor, "E N"], target: Float[Tensor, "N"]) -> Float[Tensor, "E"]:
    return (qs - target).square().mean(dim=1)

@jaxtyped(typechecker=beartype)
def per_step(q: Float[Tensor, "T B"], baseline: Float[Tensor, "B"], clock: Float[Tensor, "T 1"]) -> Float[Tensor, "T B"]:
    return q - baseline + clock

def main() -> None:
    assert ensemble_loss(torch.randn(3, 5), torch.randn(5)).shape == (3,)
    assert per_step(torch.randn(6, 2), torch.randn(2), torch.zeros(6, 1)).shape == (6, 2)


if __name__ == "__main__":
    main()
