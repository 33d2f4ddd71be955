import torch
from jaxtyping import Float
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, n_obs: int) -> None:
        super().__init__()
        self.body = nn.Linear(n_obs, 64)
        self.head = nn.Linear(32, 2)

    def forward(self, obs: Float[Tensor, "N O"]) -> Float[Tensor, "N 2"]:
        return self.head(torch.relu(self.body(obs)))  # WRONG: 64 features for 32


def main() -> None:
    print(Net(3)(torch.zeros(4, 3)))


if __name__ == "__main__":
    main()
