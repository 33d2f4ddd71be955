import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Transition(Batch):
    obs: Float32[Tensor, "N 4"]
    rew: Float32[Tensor, "N"]
    done: Float32[Tensor, "N"]

def target(rows: Transition, next_q: Float32[Tensor, "N 1"]) -> Float32[Tensor, "N"]:
    return rows.rew + 0.99 * (1 - rows.done) * next_q  # WRONG: (N,) with (N, 1) is (N, N)

def main() -> None:
    rows = Transition(obs=torch.zeros(6, 4), rew=torch.zeros(6), done=torch.zeros(6))
    print(target(rows, torch.zeros(6, 1)).shape)


if __name__ == "__main__":
    main()
