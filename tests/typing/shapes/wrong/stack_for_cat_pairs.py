import torch
from jaxtyping import Float, Int
from torch import Tensor


def sequence_logps(tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B"]:
    return tokens.float().mean(dim=1)

def pair_logps(chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N L"]) -> Float[Tensor, "_"]:
    both = torch.stack([chosen, rejected])
    return sequence_logps(both)  # WRONG: stack gives rank 3, cat was meant

def main() -> None:
    ids = torch.zeros(3, 5, dtype=torch.long)
    print(pair_logps(ids, ids).shape, "declared rank 1")


if __name__ == "__main__":
    main()
