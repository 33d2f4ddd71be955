import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int64
from torch import Tensor
from typedbatch import Batch


class Rows(Batch):
    obs: Float32[Tensor, "N 4"]
    act: Int64[Tensor, "N"]

def chosen_logp(rows: Rows, logits: Float32[Tensor, "N A"]) -> Float32[Tensor, "N"]:
    logp = F.log_softmax(logits, dim=-1)
    return logp.gather(-1, rows.act)  # WRONG: index of rank 1 into rank 2

def main() -> None:
    rows = Rows(obs=torch.zeros(5, 4), act=torch.zeros(5, dtype=torch.long))
    print(chosen_logp(rows, torch.zeros(5, 3)))


if __name__ == "__main__":
    main()
