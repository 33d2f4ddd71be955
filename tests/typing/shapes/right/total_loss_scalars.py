import torch
from jaxtyping import Float
from torch import Tensor


def total(losses: dict[str, Float[Tensor, ""]], coefs: dict[str, float]) -> Float[Tensor, ""]:
    out = torch.zeros(())
    for name, value in losses.items():
        out = out + coefs.get(name, 1.0) * value
    return out

def main() -> None:
    x = torch.randn(3, 4)
    assert total({"pg": x.mean(), "vf": x.square().sum(), "ent": x.max()}, {"vf": 0.5}).shape == ()


if __name__ == "__main__":
    main()
