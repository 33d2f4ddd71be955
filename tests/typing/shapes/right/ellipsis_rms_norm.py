import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale).type_as(x) * self.weight

def main() -> None:
    norm = RMSNorm(4)
    assert norm(torch.randn(4)).shape == (4,)
    assert norm(torch.randn(2, 3, 4)).shape == (2, 3, 4)


if __name__ == "__main__":
    main()
