import torch
from jaxtyping import Float
from torch import Tensor, nn


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Float[Tensor, "N 4"]) -> Float[Tensor, "N 1"]:
        return self.net(obs)


def loss(critic: Critic, obs: Float[Tensor, "N 4"], returns: Float[Tensor, "N"]) -> Tensor:
    return (critic(obs) - returns).square().mean()  # WRONG: a column against a row


def main() -> None:
    print(loss(Critic(), torch.zeros(3, 4), torch.zeros(3)))


if __name__ == "__main__":
    main()
