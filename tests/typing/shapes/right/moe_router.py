import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def route(x: Float[Tensor, "N D"], gate: Float[Tensor, "D E"], experts: Float[Tensor, "E D D"], k: int) -> tuple[Float[Tensor, "N D"], Float[Tensor, ""]]:
    probs = (x @ gate).softmax(-1)
    weight, idx = probs.topk(k, dim=-1)
    weight = weight / weight.sum(-1, keepdim=True)
    every = torch.einsum("nd,edf->nef", x, experts)
    picked = every.gather(1, idx.unsqueeze(-1).expand(-1, -1, x.size(1)))
    load = F.one_hot(idx, gate.size(1)).sum(1).float().mean(0)
    return (weight.unsqueeze(-1) * picked).sum(1), (load * probs.mean(0)).sum() * gate.shape[1]

def main() -> None:
    y, aux = route(torch.randn(6, 3), torch.randn(3, 4), torch.randn(4, 3, 3), 2)
    assert y.shape == (6, 3) and aux.shape == ()


if __name__ == "__main__":
    main()
