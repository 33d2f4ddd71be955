import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def bc_loss(logits: Float[Tensor, "N A"], actions: Int[Tensor, "N 1"]) -> Float[Tensor, ""]:
    return F.nll_loss(logits.log_softmax(-1), actions)  # WRONG: targets (N, 1), (N,) is needed

def main() -> None:
    print(bc_loss(torch.zeros(4, 3), torch.zeros(4, 1, dtype=torch.long)))


if __name__ == "__main__":
    main()
