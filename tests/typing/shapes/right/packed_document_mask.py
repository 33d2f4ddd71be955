import torch
from beartype import beartype
from jaxtyping import Bool, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def block_causal(doc: Int[Tensor, "B L"]) -> Bool[Tensor, "B 1 L L"]:
    length = doc.shape[1]
    pos = torch.arange(length)
    causal = pos[:, None] >= pos
    same = doc[:, :, None] == doc[:, None, :]
    return (same & causal).unsqueeze(1)

def main() -> None:
    m = block_causal(torch.tensor([[0, 0, 1, 1]]))
    assert m.shape == (1, 1, 4, 4) and m.sum() == 6


if __name__ == "__main__":
    main()
