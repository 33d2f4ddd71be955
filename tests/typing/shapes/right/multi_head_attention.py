import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Float[Tensor, "B T D"], pad: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        att = att.masked_fill(~causal, float("-inf"))
        if pad is not None:
            att = att.masked_fill(pad[:, None, None, :], -1e9)
        y = att.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))

def main() -> None:
    m = Attention(16, 4)
    assert m(torch.randn(2, 5, 16)).shape == (2, 5, 16)
    assert m(torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)).shape == (2, 5, 16)


if __name__ == "__main__":
    main()
