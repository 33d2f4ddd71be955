import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def sample(logits: Float[Tensor, "*lead A"], table: Float[Tensor, "A D"]) -> Float[Tensor, "*lead D"]:
    gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
    soft = ((logits + gumbel) / 0.7).softmax(-1)
    hard = F.one_hot(soft.argmax(-1), logits.shape[-1]).to(soft)
    return (hard - soft.detach() + soft) @ table

def main() -> None:
    t = torch.randn(5, 3)
    assert sample(torch.randn(5), t).shape == (3,) and sample(torch.randn(2, 4, 5), t).shape == (2, 4, 3)


if __name__ == "__main__":
    main()
