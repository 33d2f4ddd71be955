import torch
from jaxtyping import Float
from torch import Tensor


def deltas(
    rewards: Float[Tensor, "T"],
    values: Float[Tensor, "T+1"],
    dones: Float[Tensor, "T"],
    gamma: float = 0.99,
) -> Float[Tensor, "T"]:
    next_values = values[1:]
    return rewards + gamma * next_values * (1 - dones) - values  # WRONG: T against T+1

def main() -> None:
    print(deltas(torch.zeros(5), torch.zeros(6), torch.zeros(5)))


if __name__ == "__main__":
    main()
