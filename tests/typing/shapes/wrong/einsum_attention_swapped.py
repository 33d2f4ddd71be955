import torch
from jaxtyping import Float
from torch import Tensor


def attend(
    q: Float[Tensor, "B T D"], k: Float[Tensor, "B S D"], v: Float[Tensor, "B S E"]
) -> Float[Tensor, "B T E"]:
    weights = torch.einsum("btd,bsd->bst", q, k).softmax(dim=-1)
    return torch.bmm(weights, v)  # WRONG: weights are (B, S, T)

def main() -> None:
    print(attend(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)))


if __name__ == "__main__":
    main()
