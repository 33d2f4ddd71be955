import torch
from jaxtyping import Float, Int
from torch import Tensor


def pad_positions(mask: Int[Tensor, "N L"], scores: Float[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    pad = ~mask  # WRONG: ~ of an integer mask gives -1 and -2
    return scores * pad

def main() -> None:
    print(pad_positions(torch.tensor([[1, 1, 0]]), torch.ones(1, 3)))


if __name__ == "__main__":
    main()
