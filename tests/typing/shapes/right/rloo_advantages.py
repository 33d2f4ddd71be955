import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def rloo(rewards: Float[Tensor, "B"], group: int) -> Float[Tensor, "B"]:
    r = rewards.view(-1, group)
    baseline = (r.sum(dim=1, keepdim=True) - r) / (group - 1)
    return (r - baseline).view(-1)

@jaxtyped(typechecker=beartype)
def grpo(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P*G"]:
    mean, std = rewards.mean(1, keepdim=True), rewards.std(1, keepdim=True)
    return ((rewards - mean) / (std + 1e-4)).flatten()

def main() -> None:
    assert rloo(torch.randn(12), 4).shape == (12,)
    assert grpo(torch.randn(3, 4)).shape == (12,)


if __name__ == "__main__":
    main()
