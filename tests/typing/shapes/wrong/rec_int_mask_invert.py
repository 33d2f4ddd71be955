import torch
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Tokens(Batch):
    ids: Int64[Tensor, "N L"]
    mask: Int64[Tensor, "N L"]

def blank_padding(tokens: Tokens, scores: Float32[Tensor, "N L"]) -> Float32[Tensor, "N L"]:
    return scores.masked_fill(~tokens.mask, 0.0)  # WRONG: ~ of an integer mask

def main() -> None:
    ones = torch.ones(2, 3, dtype=torch.long)
    print(blank_padding(Tokens(ids=ones, mask=ones), torch.ones(2, 3)))


if __name__ == "__main__":
    main()
