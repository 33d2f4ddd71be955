import torch
from beartype import beartype
from jaxtyping import Integer, Num, Shaped, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def take(x: Shaped[Tensor, "N *rest"], idx: Integer[Tensor, "M"]) -> Shaped[Tensor, "M *rest"]:
    return x[idx.long()]

@jaxtyped(typechecker=beartype)
def total(x: Num[Tensor, "N L"]) -> Num[Tensor, "N"]:
    return x.sum(1)

def main() -> None:
    i = torch.tensor([0, 0, 1], dtype=torch.uint8)
    assert take(torch.zeros(2, 3, dtype=torch.bool), i).shape == (3, 3)
    assert take(torch.zeros(2), i).shape == (3,)
    assert total(torch.ones(2, 3)).shape == total(torch.ones(2, 3, dtype=torch.int32)).shape == (2,)


if __name__ == "__main__":
    main()
