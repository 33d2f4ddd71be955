import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def rnn(x: Float[Tensor, "B T D"], w: Float[Tensor, "D H"], u: Float[Tensor, "H H"]) -> Float[Tensor, "B T H"]:
    h = torch.zeros(x.shape[0], w.shape[1])
    hs = []
    for x_t in x.unbind(1):
        h = torch.tanh(x_t @ w + h @ u)
        hs.append(h)
    return torch.stack(hs, dim=1)

def main() -> None:
    assert rnn(torch.randn(2, 5, 3), torch.randn(3, 4), torch.randn(4, 4)).shape == (2, 5, 4)


if __name__ == "__main__":
    main()
