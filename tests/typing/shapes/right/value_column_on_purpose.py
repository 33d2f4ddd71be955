import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def critic_loss(q1: Float[Tensor, "N 1"], q2: Float[Tensor, "N 1"], rew: Float[Tensor, "N"], done: Bool[Tensor, "N"], nxt: Float[Tensor, "N 1"]) -> Float[Tensor, ""]:
    target = rew.view(-1, 1) + 0.99 * (~done).view(-1, 1) * nxt
    return F.mse_loss(q1, target) + F.mse_loss(q2, target)

def main() -> None:
    q = torch.randn(4, 1)
    assert critic_loss(q, q, torch.randn(4), torch.zeros(4, dtype=torch.bool), q).shape == ()


if __name__ == "__main__":
    main()
