import torch
from jaxtyping import Float
from torch import Tensor


def stats(x: Float[Tensor, "T B"], horizon: int) -> dict[str, Float[Tensor, "..."]]:
    t, b = x.shape
    rows = x.reshape(t // horizon, horizon, b)
    resampled = rows.mean(1).repeat(horizon, 1)
    tail = x[-resampled.shape[0] :]
    return {"per_env": x.sum(0), "per_step": x.sum(1), "resid": tail - resampled, "last": x[-1] - x[0]}

def main() -> None:
    out = stats(torch.randn(6, 2), 3)
    assert out["per_env"].shape == (2,) and out["per_step"].shape == (6,)
    assert out["resid"].shape == (6, 2) and out["last"].shape == (2,)


if __name__ == "__main__":
    main()
