import torch
from jaxtyping import Float
from torch import Tensor, nn


class ValueHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, width))

    def forward(self, hidden: Float[Tensor, "N L 16"]) -> Float[Tensor, "N L"]:
        weight: Float[Tensor, "1 16"] = self.weight
        return hidden @ weight.T  # WRONG: (N, L, 1) for (N, L)

def main() -> None:
    print(ValueHead(16)(torch.zeros(2, 5, 16)).shape)


if __name__ == "__main__":
    main()
