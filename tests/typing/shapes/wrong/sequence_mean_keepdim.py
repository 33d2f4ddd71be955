import torch
from jaxtyping import Float
from torch import Tensor


def seq_mean(kl: Float[Tensor, "N L"], mask: Float[Tensor, "N L"]) -> Float[Tensor, "N"]:
    total = (kl * mask).sum(dim=-1)
    count = mask.sum(dim=-1, keepdim=True)
    return total / count  # WRONG: (N,) / (N, 1) is (N, N)

def main() -> None:
    print(seq_mean(torch.ones(3, 5), torch.ones(3, 5)).shape)


if __name__ == "__main__":
    main()
