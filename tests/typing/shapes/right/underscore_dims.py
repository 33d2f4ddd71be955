import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def concat_features(a: Float[Tensor, "N _"], b: Float[Tensor, "N _"]) -> Float[Tensor, "N _"]:
    return torch.cat((a, b), dim=1)

def main() -> None:
    assert concat_features(torch.zeros(3, 2), torch.zeros(3, 5)).shape == (3, 7)


if __name__ == "__main__":
    main()
