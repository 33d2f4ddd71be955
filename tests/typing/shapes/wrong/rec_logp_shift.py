import torch
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Completion(Batch):
    ids: Int64[Tensor, "N L"]
    mask: Float32[Tensor, "N L"]
    logp: Float32[Tensor, "N L-1"]

def ppo_tokens(c: Completion) -> Float32[Tensor, "N"]:
    return (c.logp * c.mask).sum(-1)  # WRONG: L-1 against L, mask[:, 1:] was meant

def main() -> None:
    c = Completion(ids=torch.zeros(2, 6, dtype=torch.long), mask=torch.ones(2, 6), logp=torch.zeros(2, 5))
    print(ppo_tokens(c))


if __name__ == "__main__":
    main()
