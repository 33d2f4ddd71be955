import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def select(probs: Float[Tensor, "N A Z"], act: Int[Tensor, "N"]) -> Float[Tensor, "N Z"]:
    return probs[torch.arange(probs.shape[0]), act]

@jaxtyped(typechecker=beartype)
def last_hidden(h: Float[Tensor, "N L D"], lengths: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
    rows = torch.arange(len(h))
    return h[rows, lengths - 1]

@jaxtyped(typechecker=beartype)
def split_by_slice(x: Float[Tensor, "N L D"], col: Int[Tensor, "N"]) -> Float[Tensor, "N L"]:
    return x[torch.arange(len(x)), :, col]

def main() -> None:
    x, i = torch.randn(4, 3, 7), torch.tensor([0, 1, 2, 1])
    assert select(x, i).shape == (4, 7)
    assert last_hidden(x, i + 1).shape == (4, 7)
    assert split_by_slice(x, i).shape == (4, 3)


if __name__ == "__main__":
    main()
