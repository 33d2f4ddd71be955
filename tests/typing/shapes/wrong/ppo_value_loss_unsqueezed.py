import torch
from jaxtyping import Float
from torch import Tensor


def value_loss(values: Float[Tensor, "N 1"], returns: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    err = values - returns  # WRONG: (N, 1) - (N,) is (N, N)
    return 0.5 * (err**2).mean()

def main() -> None:
    returns = torch.arange(8.0)
    print("perfect critic has loss", value_loss(returns.unsqueeze(1), returns))


if __name__ == "__main__":
    main()
