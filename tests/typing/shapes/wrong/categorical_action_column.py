import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Categorical


def log_probs(logits: Float[Tensor, "N K"], act: Int[Tensor, "N 1"]) -> Tensor:
    dist = Categorical(logits=logits)
    return dist.log_prob(act)  # WRONG: each action against every row


def main() -> None:
    print(log_probs(torch.zeros(3, 2), torch.zeros(3, 1, dtype=torch.int64)).shape)


if __name__ == "__main__":
    main()
