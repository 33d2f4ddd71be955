import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def dpo_loss(
    policy: Float[Tensor, "N L"],
    ref: Float[Tensor, "N L"],
    mask: Float[Tensor, "N L"],
    beta: float,
) -> Float[Tensor, "N"]:
    ratio = (policy - ref) * mask
    return -F.logsigmoid(beta * ratio)  # WRONG: never summed over tokens, (N, L) for (N,)

def main() -> None:
    print(dpo_loss(torch.zeros(2, 5), torch.zeros(2, 5), torch.ones(2, 5), 0.1).shape)


if __name__ == "__main__":
    main()
