from typing import TypeAlias

import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


Logits: TypeAlias = Float[Tensor, "N A"]
Actions: TypeAlias = Int[Tensor, "N"]
Vector: TypeAlias = Float[Tensor, "N"]

@jaxtyped(typechecker=beartype)
def log_prob(logits: Logits, actions: Actions) -> Vector:
    return -F.cross_entropy(logits, actions, reduction="none")

@jaxtyped(typechecker=beartype)
def ratio(new: Logits, old: Logits, actions: Actions) -> Vector:
    return (log_prob(new, actions) - log_prob(old, actions)).exp()

def main() -> None:
    x = torch.randn(5, 3)
    assert torch.allclose(ratio(x, x, torch.randint(3, (5,))), torch.ones(5))


if __name__ == "__main__":
    main()
