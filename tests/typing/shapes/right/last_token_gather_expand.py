import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def last_token(h: Float[Tensor, "N L D"], mask: Int[Tensor, "N L"]) -> Float[Tensor, "N D"]:
    idx = mask.sum(dim=1) - 1
    idx = idx[:, None, None].expand(-1, 1, h.size(-1))
    return h.gather(1, idx).squeeze(1)

@jaxtyped(typechecker=beartype)
def last_reward(r: Float[Tensor, "N L"], mask: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
    last = mask.cumsum(1).argmax(1)
    return torch.take_along_dim(r, last.unsqueeze(-1), 1).squeeze(-1)

def main() -> None:
    m = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert last_token(torch.randn(2, 3, 4), m).shape == (2, 4)
    assert last_reward(torch.tensor([[1.0, 2, 3], [4, 5, 6]]), m).tolist() == [2, 6]


if __name__ == "__main__":
    main()
