import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def lerp(a: Float[Tensor, "#N #D"], b: Float[Tensor, "#N #D"], t: Float[Tensor, "#N #D"]) -> Float[Tensor, "N D"]:
    return a + t * (b - a)

def main() -> None:
    out = lerp(torch.zeros(4, 1), torch.ones(1, 3), torch.full((4, 3), 0.5))
    assert out.shape == (4, 3)


if __name__ == "__main__":
    main()
