import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def lm_loss(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, ""]:
    return F.cross_entropy(logits, labels)  # WRONG: classes must be axis 1, here that is L

def main() -> None:
    print(lm_loss(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long)))


if __name__ == "__main__":
    main()
