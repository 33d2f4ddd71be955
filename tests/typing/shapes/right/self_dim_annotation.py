import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


class Embedder:
    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.table = torch.randn(100, dim)

    @jaxtyped(typechecker=beartype)
    def __call__(self, ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L {self.dim}"]:
        return self.table[ids] * self.dim**0.5

    def tied_logits(self, h: Float[Tensor, "N L d"]) -> Float[Tensor, "N L V"]:
        return h @ self.table.T

def main() -> None:
    e = Embedder(6)
    h = e(torch.randint(100, (2, 3)))
    assert h.shape == (2, 3, 6) and e.tied_logits(h).shape == (2, 3, 100)


if __name__ == "__main__":
    main()
