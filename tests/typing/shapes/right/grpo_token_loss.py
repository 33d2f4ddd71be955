import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def grpo_loss(
    logp: Float[Tensor, "N L"], old: Float[Tensor, "N L"], adv: Float[Tensor, "N"], mask: Bool[Tensor, "N L"]
) -> Float[Tensor, ""]:
    ratio = (logp - old).exp()
    adv_t = adv.unsqueeze(1)
    obj = torch.min(ratio * adv_t, ratio.clamp(0.8, 1.2) * adv_t)
    per_seq = (obj * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    return -per_seq.mean()

def main() -> None:
    x = torch.randn(3, 5)
    assert grpo_loss(x, x, torch.randn(3), torch.ones(3, 5, dtype=torch.bool)).shape == ()


if __name__ == "__main__":
    main()
