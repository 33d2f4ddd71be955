import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def episode_returns(rew: Float[Tensor, "T B"], done: Bool[Tensor, "T B"]) -> Float[Tensor, "B"]:
    total = torch.zeros(rew.shape[1])
    alive = torch.ones(rew.shape[1], dtype=torch.bool)
    for r, d in zip(rew, done):
        total += r * alive
        alive &= ~d
    return total

def lengths(seqs: Int[Tensor, "N L"], eos: int) -> list[int]:
    return [int((row == eos).nonzero()[0]) if (row == eos).any() else len(row) for row in seqs]

def main() -> None:
    assert episode_returns(torch.ones(5, 2), torch.zeros(5, 2, dtype=torch.bool)).shape == (2,)
    assert lengths(torch.tensor([[1, 2, 0], [1, 1, 1]]), 0) == [2, 3]


if __name__ == "__main__":
    main()
