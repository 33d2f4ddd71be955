import torch
from jaxtyping import Float
from torch import Tensor


def quantile_td(pred: Float[Tensor, "N K"], target: Float[Tensor, "N M"]) -> Float[Tensor, "N M K"]:
    return target.unsqueeze(2) - pred.unsqueeze(2)  # WRONG: (N, M, 1) - (N, K, 1), pred wants unsqueeze(1)

def main() -> None:
    print(quantile_td(torch.zeros(4, 8), torch.zeros(4, 6)).shape)


if __name__ == "__main__":
    main()
