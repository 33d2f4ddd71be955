import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def nll(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
    keep = labels.ne(-100)
    safe = torch.where(keep, labels, 0)
    logp = logits.log_softmax(-1).gather(-1, safe[:, :, None]).squeeze(-1)
    return -(logp * keep).sum(1) / keep.sum(1).clamp_min(1)

def main() -> None:
    assert nll(torch.randn(2, 3, 4), torch.tensor([[1, 2, -100], [0, -100, -100]])).shape == (2,)


if __name__ == "__main__":
    main()
