import torch
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Groups(Batch):
    prompt: Int64[Tensor, "P L"]
    rew: Float32[Tensor, "P G"]

def grpo(groups: Groups) -> Float32[Tensor, "P G"]:
    centred = groups.rew - groups.rew.mean(dim=-1)  # WRONG: (P, G) - (P,), keepdim is missing
    return centred / 2.0

def main() -> None:
    groups = Groups(prompt=torch.zeros(3, 7, dtype=torch.long), rew=torch.randn(3, 4))
    print(grpo(groups))


if __name__ == "__main__":
    main()
