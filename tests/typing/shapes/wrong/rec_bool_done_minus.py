import torch
from jaxtyping import Bool, Float32
from torch import Tensor
from typedbatch import Batch


class Step(Batch):
    rew: Float32[Tensor, "N"]
    done: Bool[Tensor, "N"]

def returns(step: Step, value: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    return step.rew + 0.99 * (1 - step.done) * value  # WRONG: 1 - bool

def main() -> None:
    print(returns(Step(rew=torch.zeros(3), done=torch.zeros(3, dtype=torch.bool)), torch.zeros(3)))


if __name__ == "__main__":
    main()
