from typing import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor


def generate(step: "Callable[[Tensor], Tensor]", ids: Int[Tensor, "N L"], steps: int) -> Int[Tensor, "N M"]:
    finished = torch.zeros(ids.shape[0], dtype=torch.bool)
    for _ in range(steps):
        nxt = step(ids).argmax(-1)
        nxt = torch.where(finished, 0, nxt)
        ids = torch.cat([ids, nxt[:, None]], dim=1)
        finished |= nxt == 0
        if finished.all():
            break
    return ids

def main() -> None:
    fn: Callable[[Tensor], Tensor] = lambda ids: F.one_hot(ids[:, -1] + 1, 20).float()
    assert generate(fn, torch.ones(2, 3, dtype=torch.long), 4).shape == (2, 7)


if __name__ == "__main__":
    main()
