import torch
from jaxtyping import Float
from torch import Tensor, nn


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 8)

    def forward(self, x: Float[Tensor, "T B 3"], done: Float[Tensor, "T B"], state: tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]]) -> Float[Tensor, "T*B H"]:
        outs: list[Tensor] = []
        for h, d in zip(x, done):
            keep = (1.0 - d).view(1, -1, 1)
            out, state = self.lstm(h.unsqueeze(0), (keep * state[0], keep * state[1]))
            outs += [out]
        return torch.flatten(torch.cat(outs), 0, 1)

def main() -> None:
    s = (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    assert Recurrent()(torch.zeros(5, 2, 3), torch.zeros(5, 2), s).shape == (10, 8)


if __name__ == "__main__":
    main()
