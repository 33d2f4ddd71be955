import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def disc_loss(logits: Float[Tensor, "N 1"], is_expert: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return F.binary_cross_entropy_with_logits(logits, is_expert)  # WRONG: (N, 1) against (N,)

def main() -> None:
    print(disc_loss(torch.zeros(4, 1), torch.ones(4)))


if __name__ == "__main__":
    main()
