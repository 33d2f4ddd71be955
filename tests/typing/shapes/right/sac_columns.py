import torch
from jaxtyping import Float
from torch import Tensor


def sac_target(
    rew: Float[Tensor, "N 1"], done: Float[Tensor, "N 1"], qs: list[Float[Tensor, "N 1"]], logp: Float[Tensor, "N A"], alpha: float
) -> Float[Tensor, "N 1"]:
    entropy = logp.sum(dim=-1, keepdim=True)
    min_q, _ = torch.min(torch.cat(qs, dim=1), dim=1, keepdim=True)
    return rew + 0.99 * (1 - done) * (min_q - alpha * entropy)

def main() -> None:
    c = torch.zeros(4, 1)
    assert sac_target(c, c, [c, c, c], torch.randn(4, 2), 0.2).shape == (4, 1)


if __name__ == "__main__":
    main()
