import torch
from jaxtyping import Float
from torch import Tensor


def steps(x: Float[Tensor, "N D"]) -> Float[Tensor, "T N"]:
    out = []
    for _ in range(3):
        out.append(x)
    return torch.stack(out)  # WRONG: three axes


def main() -> None:
    print(steps(torch.zeros(2, 3)))


if __name__ == "__main__":
    main()
