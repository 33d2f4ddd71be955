import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Traj(Batch):
    logp: Float32[Tensor, "B T"]
    old_logp: Float32[Tensor, "B T"]
    adv: Float32[Tensor, "B T"]

def surrogate(traj: Traj) -> Float32[Tensor, "B T"]:
    ratio = (traj.logp - traj.old_logp).exp()
    return ratio * traj.adv.T  # WRONG: (B, T) with (T, B)

def main() -> None:
    x = torch.zeros(2, 5)
    print(surrogate(Traj(logp=x, old_logp=x, adv=x)))


if __name__ == "__main__":
    main()
