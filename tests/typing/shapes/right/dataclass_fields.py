from dataclasses import dataclass

import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
@dataclass
class Minibatch:
    obs: Float[Tensor, "N D"]
    adv: Float[Tensor, "N"]
    hidden: Float[Tensor, "1 N H"]

    def normalised(self) -> Float[Tensor, "_"]:
        return (self.adv - self.adv.mean()) / (self.adv.std() + 1e-8)

    def reset(self, done: Tensor) -> "Minibatch":
        keep = (1.0 - done.float())[None, :, None]
        return Minibatch(self.obs, self.adv, self.hidden * keep)

def main() -> None:
    mb = Minibatch(torch.randn(5, 3), torch.randn(5), torch.zeros(1, 5, 8))
    assert mb.normalised().shape == (5,)
    assert mb.reset(torch.zeros(5, dtype=torch.bool)).hidden.shape == (1, 5, 8)


if __name__ == "__main__":
    main()
