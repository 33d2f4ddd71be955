import torch
from jaxtyping import Bool, Float
from torch import Tensor


def bootstrap(
    rewards: Float[Tensor, "N"], next_v: Float[Tensor, "N"], dones: Bool[Tensor, "N"]
) -> Float[Tensor, "N"]:
    not_done = 1 - dones  # WRONG: torch refuses 1 - bool
    return rewards + 0.99 * not_done * next_v

def main() -> None:
    print(bootstrap(torch.zeros(3), torch.zeros(3), torch.zeros(3, dtype=torch.bool)))


if __name__ == "__main__":
    main()
