import torch
from jaxtyping import Float
from torch import Tensor


def epoch(obs: Float[Tensor, "N D"], adv: Float[Tensor, "N"], size: int) -> list[float]:
    n = obs.shape[0]
    order = torch.randperm(n)
    losses = []
    for start in range(0, n, size):
        idx = order[start : start + size]
        o, a = obs[idx], adv[idx]
        a = (a - a.mean()) / (a.std() + 1e-8)
        losses.append(float((o.mean(-1) * a).mean()))
    return losses

def main() -> None:
    assert len(epoch(torch.randn(10, 3), torch.randn(10), 4)) == 3


if __name__ == "__main__":
    main()
