import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def grpo(rewards: Float[Tensor, "B"], group: int) -> Float[Tensor, "B"]:
    grouped = rewards.reshape(-1, group)
    mean = grouped.mean(dim=1).repeat_interleave(group)
    std = grouped.std(dim=1).repeat_interleave(group, dim=0)
    return (rewards - mean) / (std + 1e-4)

def main() -> None:
    assert grpo(torch.randn(12), 4).shape == (12,)


if __name__ == "__main__":
    main()
