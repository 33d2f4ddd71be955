import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def aligned_logprobs(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    out = torch.zeros(ids.shape)
    out[:, 1:] = logp.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return out

@jaxtyped(typechecker=beartype)
def rolled(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    labels = ids.roll(-1, dims=1)
    nll = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    nll[:, -1] = 0.0
    return -nll

def main() -> None:
    logits, ids = torch.randn(2, 6, 9), torch.randint(9, (2, 6))
    a, b = aligned_logprobs(logits, ids), rolled(logits, ids)
    assert a.shape == b.shape == (2, 6)
    assert torch.allclose(a[:, 1:], b[:, :-1], atol=1e-5)


if __name__ == "__main__":
    main()
