import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def attend(
    q: Float[Tensor, "b h t d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"]
) -> Float[Tensor, "b t h*e"]:
    w = torch.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    y = torch.einsum("bhts,bhse->bthe", w.softmax(-1), v)
    return y.flatten(2)

def main() -> None:
    assert attend(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 7)).shape == (2, 4, 21)


if __name__ == "__main__":
    main()
