import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def token_logprobs(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L-1"]:
    logits, labels = logits[:, :-1, :], ids[:, 1:]
    picked = torch.gather(logits, 2, labels[..., None])[..., 0]
    return picked - torch.logsumexp(logits, dim=-1)

def main() -> None:
    out = token_logprobs(torch.randn(2, 6, 9), torch.randint(9, (2, 6)))
    assert out.shape == (2, 5)


if __name__ == "__main__":
    main()
