"""Programs with a mistake about arrays and declarations, each below its name."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

# ---- argument_returned
# An argument is returned as it came, by a function that calls nothing.
def last(x: Float[Tensor, "N R"]) -> Float[Tensor, "N"]:
    return x  # WRONG


def main() -> None:
    print(last(torch.rand(2, 3)))

# ---- float64_for_float32
from jaxtyping import Float32
def discount_weights(rewards: Float32[np.ndarray, "T"], gamma: float) -> Float32[np.ndarray, "T"]:
    (steps,) = rewards.shape
    weights = np.ones(steps)
    weights[1:] = gamma
    return np.cumprod(weights)  # WRONG: float64 array for Float32

def main() -> None:
    print(discount_weights(np.zeros(4, dtype=np.float32), 0.9).dtype)

# ---- int_mask_for_bool
from jaxtyping import Bool
def pick(scores: Float[Tensor, "N L"], keep: Bool[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    return scores.masked_fill(keep, 0.0)

def clean(scores: Float[Tensor, "N L"], attention_mask: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    return pick(scores, attention_mask)  # WRONG: an integer mask for Bool

def main() -> None:
    print(clean(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.long)))

# ---- invert_int_mask
def pad_positions(mask: Int[Tensor, "N L"], scores: Float[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    pad = ~mask  # WRONG: ~ of an integer mask gives -1 and -2
    return scores * pad

def main() -> None:
    print(pad_positions(torch.tensor([[1, 1, 0]]), torch.ones(1, 3)))

# ---- list_filled_then_stacked
def steps(x: Float[Tensor, "N D"]) -> Float[Tensor, "T N"]:
    out = []
    for _ in range(3):
        out.append(x)
    return torch.stack(out)  # WRONG: three axes


def main() -> None:
    print(steps(torch.zeros(2, 3)))

# ---- loc_logits_unshifted_gather
def main() -> None:
    n, length, vocab = 2, 6, 11
    logits = torch.randn(n, length, vocab)
    ids = torch.zeros(n, length, dtype=torch.long)
    labels = ids[:, 1:]
    logp = logits.log_softmax(dim=-1)
    picked = logp.gather(2, labels.unsqueeze(-1))  # WRONG: L log-probs against L-1 labels, off by one
    print("silent, token t scored by its own position:", picked.shape)

# ---- loc_names_from_shape
def whiten(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    n, d = x.shape
    weight = torch.ones(n)
    return x * weight  # WRONG: (n, d) * (n,) aligns n with d

def main() -> None:
    print(whiten(torch.zeros(4, 3)))

# ---- loc_one_hot_column_cat
import torch.nn.functional as F
def main() -> None:
    obs = torch.zeros(16, 5)
    action = torch.zeros(16, 1, dtype=torch.long)
    one_hot = F.one_hot(action, 3).float()
    joined = torch.cat([obs, one_hot], dim=-1)  # WRONG: one_hot of (16, 1) has rank 3
    print(joined.shape)

# ---- loc_split_sizes
def main() -> None:
    out = torch.zeros(32, 10)
    mean, log_std = torch.split(out, [4, 4], dim=1)  # WRONG: 4 + 4 is not 10
    print(mean.shape, log_std.shape)

# ---- reshape_as_transpose
def to_env_major(x: Float[np.ndarray, "T B"]) -> Float[np.ndarray, "B T"]:
    steps, envs = x.shape
    return x.reshape(envs, steps)  # WRONG: reshape renames (T, B) to (B, T) without moving data

def main() -> None:
    x = np.arange(6.0).reshape(3, 2)
    print(to_env_major(x), "should be", x.T)

# ---- sizes_disagree_in_call
def policy_loss(logp: Float[Tensor, "N"], adv: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return -(logp * adv).mean()

def main() -> None:
    logp = torch.zeros(256)
    adv = torch.zeros(255)
    print(policy_loss(logp, adv))  # WRONG: N = 256 and N = 255

# ---- stack_for_cat_pairs
def sequence_logps(tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B"]:
    return tokens.float().mean(dim=1)

def pair_logps(chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N L"]) -> Float[Tensor, "_"]:
    both = torch.stack([chosen, rejected])
    return sequence_logps(both)  # WRONG: stack gives rank 3, cat was meant

def main() -> None:
    ids = torch.zeros(3, 5, dtype=torch.long)
    print(pair_logps(ids, ids).shape, "declared rank 1")
