import torch
from jaxtyping import Bool, Float32
from torch import Tensor
from typedbatch import Batch


class Step(Batch):
    obs: Float32[Tensor, "N 4"]
    done: Bool[Tensor, "N"]

    def alive(self) -> Float32[Tensor, "N"]:
        return (~self.done).float()

class Scored(Step):
    rew: Float32[Tensor, "N"]
    value: Float32[Tensor, "N 1"]

    def td(self, nxt: Float32[Tensor, "N 1"]) -> Float32[Tensor, "N 1"]:
        return self.rew[:, None] + 0.99 * self.alive()[:, None] * nxt - self.value

def main() -> None:
    s = Scored(obs=torch.zeros(3, 4), done=torch.tensor([True, False, False]), rew=torch.ones(3), value=torch.zeros(3, 1))
    assert s.td(torch.ones(3, 1)).shape == (3, 1) and s.alive().sum() == 2


if __name__ == "__main__":
    main()
