"""Slices whose bounds are minus a size count from the end, as those of completions do."""

import torch
from jaxtyping import Float
from torch import Tensor


def completion_kl(kl: Float[Tensor, "N R"], mask: Float[Tensor, "N L"]) -> Float[Tensor, "N R"]:
    return kl * mask[:, -kl.shape[1] :]


def last_of(x: Float[Tensor, "K+L"], y: Float[Tensor, "K"]) -> Float[Tensor, "L"]:
    x[-len(y) :] = y
    return x[: -len(y)]


def window(buffer: Float[Tensor, "L"], last: Float[Tensor, "K"]) -> Tensor:
    n = last.shape[0]
    buffer[-n:] = last
    return buffer[-n:] + last


if __name__ == "__main__":
    print(completion_kl(torch.ones(2, 3), torch.ones(2, 5)).shape)
    print(last_of(torch.ones(5), torch.zeros(2)).shape, window(torch.zeros(6), torch.ones(2)))
