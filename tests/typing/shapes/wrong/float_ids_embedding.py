import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def embed(table: Float[Tensor, "V D"], ids: Float[Tensor, "N L"]) -> Float[Tensor, "N L D"]:
    return F.embedding(ids, table)  # WRONG: token ids are floats

def main() -> None:
    print(embed(torch.zeros(10, 4), torch.zeros(2, 3)))


if __name__ == "__main__":
    main()
