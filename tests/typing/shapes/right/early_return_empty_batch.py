import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def normalise(adv: Float[Tensor, "N"], mask: Bool[Tensor, "N"] | None = None) -> Float[Tensor, "N"]:
    n = adv.numel()
    if n <= 1:
        return torch.zeros_like(adv)
    if mask is None:
        mask = torch.ones(n, dtype=torch.bool)
    elif not mask.any():
        return adv
    kept = adv[mask]
    out = torch.empty_like(adv).fill_(0.0)
    out[mask] = (kept - kept.mean()) / kept.std(unbiased=False).clamp(min=1e-8)
    return out

def main() -> None:
    assert normalise(torch.zeros(0)).shape == (0,) and normalise(torch.ones(1)).shape == (1,)
    assert normalise(torch.randn(4), torch.tensor([True, True, False, False])).shape == (4,)


if __name__ == "__main__":
    main()
