import torch
from jaxtyping import Float
from torch import Tensor


def masked_kl(
    mask: Float[Tensor, "N L"], logp: Float[Tensor, "N L-1"], ref_logp: Float[Tensor, "N L-1"]
) -> Float[Tensor, "N"]:
    kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
    return (kl * mask).sum(dim=1)  # WRONG: L-1 tokens against a mask of L

def main() -> None:
    print(masked_kl(torch.ones(2, 5), torch.zeros(2, 4), torch.zeros(2, 4)))


if __name__ == "__main__":
    main()
