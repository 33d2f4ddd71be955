import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def pool(tokens: Float[Tensor, "b l d"]) -> Float[Tensor, "b"]:
    x: Float[Tensor, "b d"] = tokens.mean(1)
    y: Float[Tensor, "b 1"] = x.sum(1, keepdim=True)
    z: Float[Tensor, "b"] = (x - y).amax(1)
    return z

def main() -> None:
    assert pool(torch.randn(2, 3, 4)).shape == (2,)
    assert pool(torch.randn(1, 1, 1)).shape == (1,)


if __name__ == "__main__":
    main()
