import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def double_dqn(
    q: Float[Tensor, "N A"], online: Float[Tensor, "N A"], target: Float[Tensor, "N A"],
    act: Int[Tensor, "N"], rew: Float[Tensor, "N"], done: Bool[Tensor, "N"],
) -> Float[Tensor, ""]:
    best = online.argmax(dim=1, keepdim=True)
    nxt = target.gather(1, best).squeeze(1)
    y = rew + 0.99 * nxt * ~done
    chosen = q.gather(1, act.view(-1, 1)).view(-1)
    return F.smooth_l1_loss(chosen, y.detach())

def main() -> None:
    q = torch.randn(5, 3)
    assert double_dqn(q, q, q, torch.randint(3, (5,)), torch.zeros(5), torch.zeros(5, dtype=torch.bool)).shape == ()


if __name__ == "__main__":
    main()
