import torch
from jaxtyping import Float
from torch import Tensor


def reset_hidden(hidden: Float[Tensor, "layers N H"], done: Float[Tensor, "N"]) -> Float[Tensor, "layers N H"]:
    return hidden * (1.0 - done)  # WRONG: aligns N with H, [:, None] is missing

def main() -> None:
    print(reset_hidden(torch.zeros(2, 4, 16), torch.zeros(4)).shape)


if __name__ == "__main__":
    main()
