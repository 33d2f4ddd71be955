import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[Tensor, "N 3"]
    rew: Float32[Tensor, "N"]

def collect(obs: Float32[Tensor, "N 3"], raw: Float32[Tensor, "N"]) -> Rows:
    rew = raw.unsqueeze(-1)
    return Rows(obs=obs, rew=rew)  # WRONG: rew is (N, 1), (N,) is declared

def main() -> None:
    print(collect(torch.zeros(5, 3), torch.zeros(5)).rew.shape)


if __name__ == "__main__":
    main()
