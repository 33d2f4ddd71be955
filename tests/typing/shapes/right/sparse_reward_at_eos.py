import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def add_terminal_reward(kl: Float[Tensor, "N L"], score: Float[Tensor, "N"], ends: Int[Tensor, "N"]) -> Float[Tensor, "N L"]:
    rewards = -0.1 * kl
    rewards[torch.arange(len(score)), ends] += score
    return rewards

@jaxtyped(typechecker=beartype)
def by_scatter(score: Float[Tensor, "N"], ends: Int[Tensor, "N"], length: int) -> Float[Tensor, "N L"]:
    out = torch.zeros(score.shape[0], length)
    return out.scatter(1, ends.unsqueeze(1), score.unsqueeze(1))

def main() -> None:
    assert add_terminal_reward(torch.zeros(2, 4), torch.ones(2), torch.tensor([1, 3])).sum() == 2
    assert by_scatter(torch.ones(2), torch.tensor([1, 3]), 5).shape == (2, 5)


if __name__ == "__main__":
    main()
