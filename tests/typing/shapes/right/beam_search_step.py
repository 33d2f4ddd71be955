import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def beam_step(scores: Float[Tensor, "B K"], logp: Float[Tensor, "B K V"], seqs: Int[Tensor, "B K L"]) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K L+1"]]:
    b, k, v = logp.shape
    total = (scores.unsqueeze(-1) + logp).view(b, k * v)
    best, flat = total.topk(k, dim=1)
    beam, token = flat // v, flat % v
    parents = seqs.gather(1, beam.unsqueeze(-1).expand(-1, -1, seqs.size(2)))
    return best, torch.cat([parents, token.unsqueeze(-1)], dim=-1)

def main() -> None:
    s, q = beam_step(torch.zeros(2, 3), torch.randn(2, 3, 7), torch.zeros(2, 3, 4, dtype=torch.long))
    assert s.shape == (2, 3) and q.shape == (2, 3, 5)


if __name__ == "__main__":
    main()
