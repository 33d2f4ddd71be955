import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def pick(scores: Float[Tensor, "N L"], keep: Bool[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    return scores.masked_fill(keep, 0.0)

def clean(scores: Float[Tensor, "N L"], attention_mask: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    return pick(scores, attention_mask)  # WRONG: an integer mask for Bool

def main() -> None:
    print(clean(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.long)))


if __name__ == "__main__":
    main()
