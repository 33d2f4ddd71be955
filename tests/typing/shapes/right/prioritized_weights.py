import numpy as np
import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Float32, Float64, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def per_loss(q: Float[Tensor, "N"], y: Float[Tensor, "N"], prio: Float64[np.ndarray, "N"]) -> tuple[Float[Tensor, ""], Float32[np.ndarray, "N"]]:
    w = (len(prio) * prio / prio.sum()) ** -0.4
    weight = torch.as_tensor(w / w.max(), dtype=q.dtype)
    td = F.smooth_l1_loss(q, y, reduction="none")
    return (weight * td).mean(), td.detach().abs().numpy() + np.float32(1e-6)

def main() -> None:
    loss, new = per_loss(torch.randn(5), torch.randn(5), np.ones(5))
    assert loss.shape == () and new.shape == (5,)


if __name__ == "__main__":
    main()
