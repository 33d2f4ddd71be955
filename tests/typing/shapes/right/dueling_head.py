import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def dueling(value: Float[Tensor, "N 1"], adv: Float[Tensor, "N A"]) -> Float[Tensor, "N A"]:
    return value + adv - adv.mean(dim=1, keepdim=True)

@jaxtyped(typechecker=beartype)
def dueling_atoms(value: Float[Tensor, "N Z"], adv: Float[Tensor, "N A Z"]) -> Float[Tensor, "N A Z"]:
    return value.unsqueeze(1) + adv - adv.mean(1, keepdim=True)

def main() -> None:
    assert dueling(torch.randn(4, 1), torch.randn(4, 3)).shape == (4, 3)
    assert dueling_atoms(torch.randn(4, 5), torch.randn(4, 3, 5)).shape == (4, 3, 5)


if __name__ == "__main__":
    main()
