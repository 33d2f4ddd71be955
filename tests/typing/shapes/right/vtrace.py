import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def vtrace(
    log_rho: Float[Tensor, "T B"], disc: Float[Tensor, "T B"], rew: Float[Tensor, "T B"],
    val: Float[Tensor, "T B"], boot: Float[Tensor, "B"],
) -> tuple[Float[Tensor, "T B"], Float[Tensor, "T B"]]:
    rho = log_rho.exp().clamp(max=1.0)
    nxt = torch.cat([val[1:], boot.unsqueeze(0)], dim=0)
    delta = rho * (rew + disc * nxt - val)
    acc, out = torch.zeros_like(boot), []
    for t in range(len(disc) - 1, -1, -1):
        acc = delta[t] + disc[t] * rho[t] * acc
        out.append(acc)
    vs = torch.stack(out[::-1]) + val
    vs_next = torch.cat((vs[1:], boot[None]))
    return vs, rho * (rew + disc * vs_next - val)

def main() -> None:
    x = torch.randn(4, 3)
    a, b = vtrace(x, x, x, x, torch.zeros(3))
    assert a.shape == b.shape == (4, 3)


if __name__ == "__main__":
    main()
