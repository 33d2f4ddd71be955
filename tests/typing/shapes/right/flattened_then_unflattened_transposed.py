import torch
from jaxtyping import Float
from torch import Tensor


def unflatten(flat: Float[Tensor, "M"], steps: int, envs: int) -> Float[Tensor, "T B"]:
    return flat.view(envs, steps).t()

def restore(x: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    t, b = x.shape
    flat = x.t().contiguous().view(-1)
    again = unflatten(flat, t, b)
    assert torch.equal(again, x)
    return again.reshape(t, b)

def main() -> None:
    assert restore(torch.arange(6.0).view(3, 2)).shape == (3, 2)


if __name__ == "__main__":
    main()
