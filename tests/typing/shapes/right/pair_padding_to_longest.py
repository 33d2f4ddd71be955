import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def pad_to(x: Int[Tensor, "N _"], length: int, value: int) -> Int[Tensor, "N {length}"]:
    return F.pad(x, (0, length - x.size(1)), value=value)

def joined(chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N M"]) -> Int[Tensor, "2*N K"]:
    longest = max(chosen.size(1), rejected.size(1))
    return torch.cat([pad_to(chosen, longest, 0), pad_to(rejected, longest, 0)])

def main() -> None:
    a, b = torch.ones(3, 5, dtype=torch.long), torch.ones(3, 7, dtype=torch.long)
    assert joined(a, b).shape == (6, 7)


if __name__ == "__main__":
    main()
