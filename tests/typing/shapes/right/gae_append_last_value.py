import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def deltas(
    rew: Float[Tensor, "T"], val: Float[Tensor, "T"], last: Float[Tensor, ""], done: Bool[Tensor, "T"]
) -> Float[Tensor, "T"]:
    extended: Float[Tensor, "T+1"] = torch.cat([val, last[None]])
    cont = (~done).float()
    return rew + 0.99 * cont * extended[1:] - extended[:-1]

def main() -> None:
    out = deltas(torch.zeros(4), torch.ones(4), torch.tensor(2.0), torch.zeros(4, dtype=torch.bool))
    assert out.shape == (4,)


if __name__ == "__main__":
    main()
