import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def preference_matrix(scores: Float[Tensor, "N"]) -> Float[Tensor, "N N"]:
    return torch.sigmoid(scores[:, None] - scores)

@jaxtyped(typechecker=beartype)
def rank_loss(scores: Float[Tensor, "N"], rewards: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    diff = scores.unsqueeze(1) - scores.unsqueeze(0)
    better = rewards.reshape(-1, 1) > rewards.reshape(1, -1)
    return -F.logsigmoid(diff)[better].mean()

def main() -> None:
    s = torch.tensor([0.1, 0.5, -0.2])
    assert preference_matrix(s).shape == (3, 3) and rank_loss(s, s).shape == ()


if __name__ == "__main__":
    main()
