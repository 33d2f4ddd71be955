import torch
from jaxtyping import Bool, Float
from torch import Tensor


def scores(s: Float[Tensor, "B T S"], mask: Bool[Tensor, "B T S"]) -> Float[Tensor, "B S T"]:
    return s.masked_fill(~mask, float("-inf")).softmax(-1)  # WRONG: not transposed


def main() -> None:
    print(scores(torch.zeros(2, 3, 4), torch.ones(2, 3, 4, dtype=torch.bool)))


if __name__ == "__main__":
    main()
