import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def info_nce(anchor: Float[Tensor, "N D"], positive: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    n, _ = anchor.shape
    logits = anchor @ positive / 0.07  # WRONG: (N, D) @ (N, D), the transpose is missing
    return F.cross_entropy(logits, torch.arange(n))

def main() -> None:
    print(info_nce(torch.randn(8, 16), torch.randn(8, 16)))


if __name__ == "__main__":
    main()
