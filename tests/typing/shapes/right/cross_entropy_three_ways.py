import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def three(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, "3"]:
    n, length, v = logits.shape
    a = F.cross_entropy(logits.view(-1, v), labels.view(-1), reduction="none").view(n, length)
    b = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    c = F.nll_loss(F.log_softmax(logits, -1).permute(0, 2, 1), labels, reduction="none")
    return torch.stack([a.mean(), b.mean(), c.mean()])

def main() -> None:
    out = three(torch.randn(2, 5, 7), torch.randint(7, (2, 5)))
    assert out.shape == (3,) and torch.allclose(out[0], out[2])


if __name__ == "__main__":
    main()
