import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def alibi(scores: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H T T"]:
    _, h, t, _ = scores.shape
    slopes = 2.0 ** (-8.0 * torch.arange(1, h + 1) / h)
    pos = torch.arange(t)
    distance = pos[None, :] - pos[:, None]
    return scores + slopes[:, None, None] * distance

def main() -> None:
    assert alibi(torch.zeros(2, 4, 5, 5)).shape == (2, 4, 5, 5)


if __name__ == "__main__":
    main()
