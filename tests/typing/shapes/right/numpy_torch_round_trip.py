import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float32, Float64, Int64, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def act(obs: Float32[np.ndarray, "N D"], w: Float32[Tensor, "D A"]) -> Int64[np.ndarray, "N"]:
    with torch.no_grad():
        logits = torch.from_numpy(obs) @ w
    return logits.argmax(dim=1).cpu().numpy()

@jaxtyped(typechecker=beartype)
def float_obs(raw: Float64[np.ndarray, "N D"]) -> Float32[Tensor, "N D"]:
    return torch.as_tensor(raw, dtype=torch.float32)

def main() -> None:
    raw = np.random.default_rng(0).normal(size=(5, 3))
    assert float_obs(raw).dtype == torch.float32
    assert act(raw.astype(np.float32), torch.randn(3, 2)).shape == (5,)


if __name__ == "__main__":
    main()
