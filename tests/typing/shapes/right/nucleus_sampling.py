import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def top_p(logits: Float[Tensor, "N V"], p: float) -> Int[Tensor, "N 1"]:
    values, order = logits.sort(dim=-1, descending=True)
    cum = values.softmax(-1).cumsum(-1)
    drop = cum > p
    drop[..., 1:] = drop[..., :-1].clone()
    drop[..., 0] = False
    logits = logits.masked_fill(drop.scatter(1, order, drop), -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1)

@jaxtyped(typechecker=beartype)
def top_k(logits: Float[Tensor, "N V"], k: int, temperature: Float[Tensor, "N"]) -> Int[Tensor, "N"]:
    kth = logits.topk(k, dim=-1).values[:, -1:]
    logits = torch.where(logits < kth, torch.full_like(logits, -torch.inf), logits)
    return torch.multinomial((logits / temperature[:, None]).softmax(-1), 1).squeeze(1)

def main() -> None:
    assert top_p(torch.randn(3, 7), 0.9).shape == (3, 1)
    assert top_k(torch.randn(3, 7), 2, torch.ones(3)).shape == (3,)


if __name__ == "__main__":
    main()
