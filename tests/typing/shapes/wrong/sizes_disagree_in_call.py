import torch
from jaxtyping import Float
from torch import Tensor


def policy_loss(logp: Float[Tensor, "N"], adv: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return -(logp * adv).mean()

def main() -> None:
    logp = torch.zeros(256)
    adv = torch.zeros(255)
    print(policy_loss(logp, adv))  # WRONG: N = 256 and N = 255


if __name__ == "__main__":
    main()
