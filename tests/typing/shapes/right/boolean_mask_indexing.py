import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def token_loss(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, ""]:
    valid = labels != -100
    flat_logits = logits[valid]
    flat_labels = labels[valid]
    weight = torch.rand(int(valid.sum()))
    nll = F.cross_entropy(flat_logits, flat_labels, reduction="none")
    return (nll * weight).sum() / weight.sum()

def main() -> None:
    labels = torch.tensor([[1, 2, -100], [0, -100, -100]])
    assert token_loss(torch.randn(2, 3, 4), labels).shape == ()


if __name__ == "__main__":
    main()
