import torch
from jaxtyping import Float
from torch import Tensor


def critic_input(obs: Float[Tensor, "N 11"], act: Float[Tensor, "N 3"]) -> Float[Tensor, "N 14"]:
    return torch.cat([obs, act], dim=0)  # WRONG: joins along the batch axis

def main() -> None:
    print(critic_input(torch.zeros(4, 11), torch.zeros(4, 3)))


if __name__ == "__main__":
    main()
