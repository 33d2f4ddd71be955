import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def project(
    probs: Float[Tensor, "N Z"], rew: Float[Tensor, "N"], done: Float[Tensor, "N"], atoms: Float[Tensor, "Z"]
) -> Float[Tensor, "N Z"]:
    n, z = probs.shape
    lo, hi = atoms[0], atoms[-1]
    dz = (hi - lo) / (z - 1)
    tz = (rew[:, None] + 0.99 * (1 - done[:, None]) * atoms).clamp(lo, hi)
    b = (tz - lo) / dz
    low, up = b.floor().long(), b.ceil().long()
    low = torch.where((up > 0) & (low == up), low - 1, low)
    up = torch.where((low < z - 1) & (low == up), up + 1, up)
    offset = torch.arange(n).unsqueeze(1) * z
    out = torch.zeros(n * z)
    out.index_add_(0, (low + offset).view(-1), (probs * (up - b)).view(-1))
    out.index_add_(0, (up + offset).view(-1), (probs * (b - low)).view(-1))
    return out.view(n, z)

def main() -> None:
    p = torch.full((3, 11), 1 / 11)
    out = project(p, torch.randn(3), torch.zeros(3), torch.linspace(-5, 5, 11))
    assert out.shape == (3, 11) and torch.allclose(out.sum(1), torch.ones(3), atol=1e-4)


if __name__ == "__main__":
    main()
