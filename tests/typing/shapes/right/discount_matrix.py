import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def discounted(rew: Float[Tensor, "T B"], gamma: float) -> Float[Tensor, "T B"]:
    steps = torch.arange(rew.shape[0])
    lag = steps - steps[:, None]
    weight = torch.where(lag >= 0, gamma ** lag.clamp(min=0).float(), torch.tensor(0.0))
    return weight @ rew

def main() -> None:
    out = discounted(torch.ones(4, 2), 1.0)
    assert out.shape == (4, 2) and out[0, 0] == 4


if __name__ == "__main__":
    main()
