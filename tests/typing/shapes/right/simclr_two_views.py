import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def nt_xent(a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    n = a.shape[0]
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.mT / 0.5
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    labels = (torch.arange(2 * n) + n) % (2 * n)
    positive = sim[torch.arange(2 * n), labels]
    other = torch.cat([sim.diagonal(n), sim.diagonal(-n)])
    assert torch.equal(positive, other)
    return F.cross_entropy(sim, labels)

def main() -> None:
    assert nt_xent(torch.randn(4, 3), torch.randn(4, 3)).shape == ()


if __name__ == "__main__":
    main()
