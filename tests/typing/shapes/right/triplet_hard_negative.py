import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def batch_hard(x: Float[Tensor, "N D"], label: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    sq = x.pow(2).sum(1)
    dist = sq[:, None] - 2 * x @ x.t() + sq[None, :]
    same = label[:, None] == label
    hardest_pos = (dist * same).max(1)[0]
    hardest_neg = torch.where(same, torch.inf, dist).min(1)[0]
    return F.relu(hardest_pos - hardest_neg + 0.2)

def main() -> None:
    assert batch_hard(torch.randn(4, 3), torch.tensor([0, 0, 1, 1])).shape == (4,)


if __name__ == "__main__":
    main()
