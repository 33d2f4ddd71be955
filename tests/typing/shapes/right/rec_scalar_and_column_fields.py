import torch
from jaxtyping import Float32
from torch import Tensor
from typedbatch import Batch


class Target(Batch):
    q: Float32[Tensor, "N 1"]
    y: Float32[Tensor, "N"]
    alpha: Float32[Tensor, ""]

def loss(t: Target) -> Float32[Tensor, "N"]:
    y = t.y.unsqueeze(-1)
    err = (t.q - y).pow(2) * t.alpha
    return err.squeeze(-1)

def compare(a: Target, b: Target) -> Float32[Tensor, "N M"]:
    return a.q - b.y[None, :]

def main() -> None:
    t = Target(q=torch.zeros(3, 1), y=torch.ones(3), alpha=torch.tensor(0.5))
    u = Target(q=torch.zeros(6, 1), y=torch.ones(6), alpha=torch.tensor(0.5))
    assert loss(t).shape == (3,) and compare(t, u).shape == (3, 6)


if __name__ == "__main__":
    main()
