import numpy as np
import torch
from beartype import beartype
from jaxtyping import Bool, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def length_mask(lengths: Int[Tensor, "N"], max_len: int) -> Bool[Tensor, "N {max_len}"]:
    return torch.arange(max_len) < lengths[:, None]

@jaxtyped(typechecker=beartype)
def np_length_mask(lengths: Int[np.ndarray, "N"]) -> Bool[np.ndarray, "N L"]:
    return np.arange(lengths.max())[None] < np.expand_dims(lengths, 1)

def main() -> None:
    assert length_mask(torch.tensor([1, 3]), 4).sum() == 4
    assert np_length_mask(np.array([1, 3])).shape == (2, 3)


if __name__ == "__main__":
    main()
