import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def listwise(scores: Float[Tensor, "N K"], rank: Int[Tensor, "N K"]) -> Float[Tensor, "N"]:
    ordered = scores.gather(1, rank)
    tail = ordered.flip(-1).logcumsumexp(-1).flip(-1)
    return (ordered - tail).sum(-1)

@jaxtyped(typechecker=beartype)
def all_pairs(scores: Float[Tensor, "N K"], rewards: Float[Tensor, "N K"]) -> Float[Tensor, "N"]:
    ds = scores.unsqueeze(2) - scores.unsqueeze(1)
    dr = rewards.unsqueeze(2) - rewards.unsqueeze(1)
    upper = torch.triu(torch.ones(scores.size(1), scores.size(1)), 1)
    return ((ds - dr) ** 2 * upper).sum(dim=(1, 2))

def main() -> None:
    s = torch.randn(3, 4)
    assert listwise(s, s.argsort(1)).shape == all_pairs(s, s).shape == (3,)


if __name__ == "__main__":
    main()
