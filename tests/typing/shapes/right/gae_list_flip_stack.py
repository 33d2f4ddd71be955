import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def gae(deltas: Float[Tensor, "T B"], discount: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    out: list[Tensor] = []
    acc = torch.zeros_like(deltas[0])
    for d, g in zip(deltas.flip(0), discount.flip(0)):
        acc = d + g * acc
        out.append(acc)
    return torch.stack(out[::-1])

def main() -> None:
    assert gae(torch.ones(6, 3), torch.full((6, 3), 0.9)).shape == (6, 3)


if __name__ == "__main__":
    main()
