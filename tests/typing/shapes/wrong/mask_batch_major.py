import torch
from jaxtyping import Float
from torch import Tensor


def masked_return(rewards: Float[Tensor, "T B"], alive: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
    masked = rewards * alive  # WRONG: (T, B) against (B, T)
    return masked.sum(dim=0)

def main() -> None:
    print("silent when T == B:", masked_return(torch.ones(4, 4), torch.ones(4, 4)).shape)
    masked_return(torch.ones(6, 4), torch.ones(4, 6))


if __name__ == "__main__":
    main()
