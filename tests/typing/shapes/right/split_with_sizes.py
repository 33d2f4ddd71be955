import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def unpack(obs: Float[Tensor, "N 10"]) -> tuple[Float[Tensor, "N 3"], Float[Tensor, "N 3"], Float[Tensor, "N 4"]]:
    pos, vel, quat = torch.split(obs, [3, 3, 4], dim=-1)
    return pos - pos.mean(0), vel, F.normalize(quat, dim=-1)

def minibatches(x: Float[Tensor, "N D"], size: int) -> list[Tensor]:
    return [part.mean(0) for part in x.split(size)]

def main() -> None:
    p, v, q = unpack(torch.randn(5, 10))
    assert p.shape == v.shape == (5, 3) and q.shape == (5, 4)
    parts = minibatches(torch.randn(10, 2), 4)
    assert len(parts) == 3 and parts[-1].shape == (2,)


if __name__ == "__main__":
    main()
