import torch
from jaxtyping import Float, Int
from torch import Tensor


def chosen_dist(probs: Float[Tensor, "N A Z"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N Z"]:
    return probs[actions]  # WRONG: indexes the batch axis, (N, A, Z) for (N, Z)

def main() -> None:
    print(chosen_dist(torch.zeros(4, 3, 51), torch.zeros(4, dtype=torch.long)).shape)


if __name__ == "__main__":
    main()
