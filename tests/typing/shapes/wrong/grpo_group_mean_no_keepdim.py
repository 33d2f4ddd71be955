import torch
from jaxtyping import Float
from torch import Tensor


def group_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    mean = rewards.mean(dim=1)
    std = rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + 1e-6)  # WRONG: (P, G) - (P,) aligns P with G

def main() -> None:
    print("silent when square:", group_advantages(torch.randn(4, 4)).shape)
    print(group_advantages(torch.randn(3, 4)))


if __name__ == "__main__":
    main()
