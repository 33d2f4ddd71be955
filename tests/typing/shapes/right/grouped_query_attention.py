import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def gqa(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B G T D"], v: Float[Tensor, "B G T D"]) -> Float[Tensor, "B H T D"]:
    b, h, t, d = q.shape
    g = k.shape[1]
    grouped = q.view(b, g, h // g, t, d)
    w = (grouped @ k.unsqueeze(2).mT / d**0.5).softmax(-1)
    out = (w @ v[:, :, None]).reshape(b, h, t, d)
    rep = k[:, :, None].expand(b, g, h // g, t, d).reshape(b, h, t, d)
    same = (q @ rep.transpose(2, 3) / d**0.5).softmax(-1)
    assert torch.allclose(same, w.flatten(1, 2), atol=1e-5)
    return out

def main() -> None:
    assert gqa(torch.randn(2, 6, 3, 4), torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)).shape == (2, 6, 3, 4)


if __name__ == "__main__":
    main()
