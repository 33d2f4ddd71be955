import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def multilabel(logits: Float[Tensor, "N C"], labels: Bool[Tensor, "N C"], row_weight: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    positives = labels.sum(0)
    pos_weight = (len(labels) - positives) / positives.clamp(min=1)
    loss = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=pos_weight, reduction="none")
    return (loss.mean(dim=1) * row_weight).sum() / row_weight.sum()

@jaxtyped(typechecker=beartype)
def gan(real: Float[Tensor, "N 1"], fake: Float[Tensor, "M 1"]) -> Float[Tensor, ""]:
    bce = F.binary_cross_entropy_with_logits
    return bce(real, torch.ones_like(real)) + bce(fake, torch.zeros(len(fake), 1))

def main() -> None:
    assert multilabel(torch.randn(4, 3), torch.rand(4, 3) > 0.5, torch.ones(4)).shape == ()
    assert gan(torch.randn(4, 1), torch.randn(6, 1)).shape == ()


if __name__ == "__main__":
    main()
