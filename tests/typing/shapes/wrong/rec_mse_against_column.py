import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Rows(Batch):
    act: Int64[Tensor, "N"]
    ret: Float32[Tensor, "N"]

def loss(rows: Rows, q: Float32[Tensor, "N A"]) -> Float32[Tensor, ""]:
    picked = torch.take_along_dim(q, rows.act[:, None], dim=1)
    return F.mse_loss(picked, rows.ret)  # WRONG: (N, 1) against (N,)

def main() -> None:
    rows = Rows(act=torch.zeros(4, dtype=torch.long), ret=torch.arange(4.0))
    print("perfect q has loss", loss(rows, rows.ret.unsqueeze(1).expand(4, 3)))


if __name__ == "__main__":
    main()
