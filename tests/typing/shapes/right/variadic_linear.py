import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def linear(x: Float[Tensor, "*batch d"], w: Float[Tensor, "out d"], b: Float[Tensor, "out"]) -> Float[Tensor, "*batch out"]:
    *lead, d = x.shape
    y = x.reshape(-1, d) @ w.T + b
    return y.reshape(*lead, len(b))

def main() -> None:
    w, b = torch.randn(4, 3), torch.randn(4)
    for shape in [(3,), (2, 3), (5, 2, 3)]:
        assert linear(torch.randn(shape), w, b).shape == (*shape[:-1], 4)


if __name__ == "__main__":
    main()
