import math

import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def patchify(x: Float[Tensor, "B C H W"], p: int) -> Float[Tensor, "B N D"]:
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (h // p) * (w // p), c * p * p)

@jaxtyped(typechecker=beartype)
def unpatchify(x: Float[Tensor, "B N D"], p: int, c: int) -> Float[Tensor, "B {c} H W"]:
    s = math.isqrt(x.size(1))
    x = x.view(-1, s, s, c, p, p)
    return torch.einsum("bijcpq->bcipjq", x).reshape(len(x), c, s * p, s * p)

def main() -> None:
    x = torch.randn(2, 3, 8, 8)
    y = patchify(x, 4)
    assert y.shape == (2, 4, 48) and torch.equal(unpatchify(y, 4, 3), x)


if __name__ == "__main__":
    main()
