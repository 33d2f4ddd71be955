import torch
from jaxtyping import Float
from torch import Tensor


def centred(x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return x - x.mean(0)

def cross_cov(a: Float[Tensor, "D N"], b: Float[Tensor, "D M"]) -> Float[Tensor, "N M"]:
    return centred(a).T @ centred(b)

def train_test(train: Float[Tensor, "N D"], test: Float[Tensor, "M D"]) -> Float[Tensor, "M D"]:
    return (test - train.mean(0)) / train.std(0) + centred(test) * 0

def main() -> None:
    assert cross_cov(torch.randn(5, 2), torch.randn(5, 3)).shape == (2, 3)
    assert train_test(torch.randn(9, 2), torch.randn(4, 2)).shape == (4, 2)


if __name__ == "__main__":
    main()
