import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def huber_pairs(pred: Float[Tensor, "N K"], target: Float[Tensor, "N K"]) -> Float[Tensor, "N K K"]:
    n, k = pred.shape
    a = pred.unsqueeze(2).expand(n, k, k)
    b = target.unsqueeze(1).expand(-1, k, -1)
    return F.smooth_l1_loss(a, b, reduction="none")

def main() -> None:
    out = huber_pairs(torch.randn(4, 6), torch.randn(4, 6))
    assert out.shape == (4, 6, 6)


if __name__ == "__main__":
    main()
