from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass
class Cache:
    k: Float[Tensor, "B H S D"] | None = None
    v: Float[Tensor, "B H S D"] | None = None

    def extend(self, k: Float[Tensor, "B H T D"], v: Float[Tensor, "B H T D"]) -> tuple[Tensor, Tensor]:
        if self.k is None or self.v is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=2)
            self.v = torch.cat([self.v, v], dim=2)
        return self.k, self.v

def main() -> None:
    cache = Cache()
    for t, total in [(4, 4), (1, 5), (1, 6)]:
        k, v = cache.extend(torch.zeros(2, 3, t, 8), torch.zeros(2, 3, t, 8))
        assert k.shape == v.shape == (2, 3, total, 8)


if __name__ == "__main__":
    main()
