import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Normal


def loss(
    mu: Float[Tensor, "N A"], std: Float[Tensor, "A"], act: Float[Tensor, "N A"], adv: Float[Tensor, "N"]
) -> Tensor:
    return -(Normal(mu, std).log_prob(act) * adv).mean()  # WRONG: not summed over the actions


def main() -> None:
    print(loss(torch.zeros(3, 3), torch.ones(3), torch.zeros(3, 3), torch.ones(3)))


if __name__ == "__main__":
    main()
