import torch
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[Tensor, "N 4"]
    act: Int64[Tensor, "N"]
    adv: Float32[Tensor, "N"]

def pg(rows: Rows, w: Float32[Tensor, "4 A"]) -> Float32[Tensor, ""]:
    logp = (rows.obs @ w).log_softmax(-1)
    chosen = logp.gather(1, rows.act[:, None]).squeeze(1)
    return -(chosen * rows.adv).mean()

def main() -> None:
    n = 10
    rows = Rows(obs=torch.randn(n, 4), act=torch.randint(3, (n,)), adv=torch.randn(n))
    idx = torch.randperm(n)[:6]
    part = Rows(obs=rows.obs[idx], act=rows.act[idx], adv=rows.adv[idx])
    w = torch.randn(4, 3)
    assert pg(rows, w).shape == pg(part, w).shape == ()


if __name__ == "__main__":
    main()
