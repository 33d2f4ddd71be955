import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def td_loss(
    q: Float[Tensor, "N A"], actions: Int[Tensor, "N"], target: Float[Tensor, "N"]
) -> Float[Tensor, ""]:
    chosen = q.gather(1, actions.unsqueeze(1))
    return F.smooth_l1_loss(chosen, target)  # WRONG: (N, 1) against (N,)

def main() -> None:
    target = torch.arange(4.0)
    q = target.unsqueeze(1).expand(4, 3)
    print("perfect q has loss", td_loss(q, torch.zeros(4, dtype=torch.long), target))


if __name__ == "__main__":
    main()
