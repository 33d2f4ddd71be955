import torch
from jaxtyping import Float
from torch import Tensor


def entropy(logits: Float[Tensor, "N A"]) -> Float[Tensor, "N"]:
    logp = logits.log_softmax(dim=-1)
    return -(logp.exp() * logp).sum(dim=0)  # WRONG: sums the batch, the result is (A,)

def main() -> None:
    print(entropy(torch.zeros(8, 3)).shape, "declared (8,)")


if __name__ == "__main__":
    main()
