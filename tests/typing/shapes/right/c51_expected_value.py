import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def greedy(logits: Float[Tensor, "N A Z"], atoms: Float[Tensor, "Z"]) -> tuple[Int[Tensor, "N"], Float[Tensor, "N"]]:
    q = (logits.softmax(-1) * atoms).sum(-1)
    best = q.argmax(1)
    again = torch.einsum("naz,z->na", logits.softmax(-1), atoms)
    assert torch.allclose(q, again, atol=1e-5)
    return best, q.gather(1, best[:, None])[:, 0]

def main() -> None:
    a, v = greedy(torch.randn(4, 3, 5), torch.linspace(-1, 1, 5))
    assert a.shape == v.shape == (4,)


if __name__ == "__main__":
    main()
