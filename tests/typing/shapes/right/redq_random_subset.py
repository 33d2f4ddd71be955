import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def redq(qs: Float[Tensor, "E N"], rew: Float[Tensor, "N"], m: int) -> tuple[Float[Tensor, "N"], Float[Tensor, ""]]:
    idx = torch.randperm(qs.size(0))[:m]
    target = rew + 0.99 * qs[idx].min(dim=0).values
    loss = F.mse_loss(qs, target.expand_as(qs))
    return target, loss

def main() -> None:
    t, l = redq(torch.randn(10, 4), torch.zeros(4), 2)
    assert t.shape == (4,) and l.shape == ()


if __name__ == "__main__":
    main()
