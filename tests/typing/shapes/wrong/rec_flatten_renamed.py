import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Rollout(Batch):
    obs: Float32[Tensor, "T B 8"]
    logp: Float32[Tensor, "T B"]

def env_major(roll: Rollout) -> Float32[Tensor, "B T"]:
    t, b = roll.logp.shape
    return roll.logp.view(b, t)  # WRONG: view renames the axes, transpose was meant

def main() -> None:
    roll = Rollout(obs=torch.zeros(3, 2, 8), logp=torch.arange(6.0).view(3, 2))
    print(env_major(roll), "should be", roll.logp.T)


if __name__ == "__main__":
    main()
