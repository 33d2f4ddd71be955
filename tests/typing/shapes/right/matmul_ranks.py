import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def ranks(x: Float[Tensor, "B N D"], w: Float[Tensor, "D"], m: Float[Tensor, "D E"], q: Float[Tensor, "B D"]) -> Float[Tensor, "B N"]:
    a = x @ w
    b = (x @ m).sum(-1)
    c = torch.bmm(x, q.unsqueeze(2)).squeeze(2)
    d = (q[:, None, None] @ x.mT[:, None]).reshape(a.shape)
    e = torch.matmul(w, x.transpose(1, 2))
    return a + b + c + d + e

def main() -> None:
    assert ranks(torch.randn(2, 3, 4), torch.randn(4), torch.randn(4, 5), torch.randn(2, 4)).shape == (2, 3)


if __name__ == "__main__":
    main()
