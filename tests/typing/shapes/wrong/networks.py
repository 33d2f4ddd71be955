"""Programs with a mistake about networks, each below its name."""

import torch
import torch.nn as nn
from jaxtyping import Float
from torch import Tensor

# ---- attention_masked_minus_infinity
from jaxtyping import Bool
def scores(s: Float[Tensor, "B T S"], mask: Bool[Tensor, "B T S"]) -> Float[Tensor, "B S T"]:
    return s.masked_fill(~mask, float("-inf")).softmax(-1)  # WRONG: not transposed


def main() -> None:
    print(scores(torch.zeros(2, 3, 4), torch.ones(2, 3, 4, dtype=torch.bool)))

# ---- einsum_attention_swapped
def attend(
    q: Float[Tensor, "B T D"], k: Float[Tensor, "B S D"], v: Float[Tensor, "B S E"]
) -> Float[Tensor, "B T E"]:
    weights = torch.einsum("btd,bsd->bst", q, k).softmax(dim=-1)
    return torch.bmm(weights, v)  # WRONG: weights are (B, S, T)

def main() -> None:
    print(attend(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)))

# ---- float_ids_embedding
import torch.nn.functional as F
def embed(table: Float[Tensor, "V D"], ids: Float[Tensor, "N L"]) -> Float[Tensor, "N L D"]:
    return F.embedding(ids, table)  # WRONG: token ids are floats

def main() -> None:
    print(embed(torch.zeros(10, 4), torch.zeros(2, 3)))

# ---- loc_weight_orientation
def main() -> None:
    hidden = torch.zeros(20, 64)
    weight = torch.zeros(32, 64)
    out = hidden @ weight  # WRONG: (20, 64) @ (32, 64), weight.T was meant
    print(out.shape)

# ---- module_conv_flat_size
class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.Flatten())
        self.head = nn.Linear(3136, 6)

    def forward(self, frames: Float[Tensor, "N 4 84 84"]) -> Float[Tensor, "N 6"]:
        return self.head(self.conv(frames))  # WRONG: 5184 of them


def main() -> None:
    print(Pixels()(torch.zeros(2, 4, 84, 84)))

# ---- module_head_of_other_width
class Net(nn.Module):
    def __init__(self, n_obs: int) -> None:
        super().__init__()
        self.body = nn.Linear(n_obs, 64)
        self.head = nn.Linear(32, 2)

    def forward(self, obs: Float[Tensor, "N O"]) -> Float[Tensor, "N 2"]:
        return self.head(torch.relu(self.body(obs)))  # WRONG: 64 features for 32


def main() -> None:
    print(Net(3)(torch.zeros(4, 3)))
