import torch
from jaxtyping import Bool, Float
from torch import Tensor


def margins(scores: Float[Tensor, "N"], positive: Bool[Tensor, "N"]) -> Float[Tensor, "P Q"]:
    pos, neg = scores[positive], scores[~positive]
    return pos[:, None] - neg

def balanced(scores: Float[Tensor, "N"], positive: Bool[Tensor, "N"]) -> Float[Tensor, ""]:
    pos, neg = scores[positive], scores[~positive]
    k = min(len(pos), len(neg))
    return (pos[:k] - neg[:k]).mean()

def main() -> None:
    s, m = torch.randn(5), torch.tensor([True, True, False, False, False])
    assert margins(s, m).shape == (2, 3) and balanced(s, m).shape == ()


if __name__ == "__main__":
    main()
