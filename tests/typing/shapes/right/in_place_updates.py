import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def postprocess(x: Float[Tensor, "N D"], bad: Bool[Tensor, "N"], bias: Float[Tensor, "D"]) -> Float[Tensor, "N D"]:
    x = x.clone()
    x += bias
    x /= x.norm(dim=1, keepdim=True)
    x[bad] = 0.0
    x[:, 0] = 1
    x[0] = bias
    x[:, 1:].mul_(2).clamp_(-1, 1)
    return x

def main() -> None:
    assert postprocess(torch.randn(4, 3), torch.tensor([True, False, True, False]), torch.ones(3)).shape == (4, 3)


if __name__ == "__main__":
    main()
