import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def submatrix(x: Float[Tensor, "N M"], rows: Int[Tensor, "R"], cols: Int[Tensor, "C"]) -> Float[Tensor, "R C"]:
    return x[rows[:, None], cols]

@jaxtyped(typechecker=beartype)
def np_submatrix(x: Float[np.ndarray, "N M"], rows: Int[np.ndarray, "R"], cols: Int[np.ndarray, "C"]) -> Float[np.ndarray, "R C"]:
    return x[np.ix_(rows, cols)]

def main() -> None:
    r, c = torch.tensor([0, 2]), torch.tensor([1, 1, 3])
    x = torch.randn(4, 5)
    assert submatrix(x, r, c).shape == np_submatrix(x.numpy(), r.numpy(), c.numpy()).shape == (2, 3)


if __name__ == "__main__":
    main()
