import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def interleave(r: Float[Tensor, "B T D"], s: Float[Tensor, "B T D"], a: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B 3*T D"], Float[Tensor, "B T D"]]:
    b, t, d = s.shape
    seq = torch.stack((r, s, a), dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, d)
    state_out = seq.view(b, t, 3, d).permute(0, 2, 1, 3)[:, 1]
    assert torch.equal(seq[:, 1::3], state_out)
    return seq, state_out

def main() -> None:
    x, y = interleave(torch.randn(2, 4, 3), torch.randn(2, 4, 3), torch.randn(2, 4, 3))
    assert x.shape == (2, 12, 3) and y.shape == (2, 4, 3)


if __name__ == "__main__":
    main()
