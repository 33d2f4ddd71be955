import torch
from jaxtyping import Float, Int
from torch import Tensor


def chosen_q(q: Float[Tensor, "N A"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    return q.gather(1, actions)  # WRONG: the index has rank 1, q rank 2

def main() -> None:
    print(chosen_q(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)))


if __name__ == "__main__":
    main()
