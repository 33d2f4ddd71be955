"""Programs with a mistake about tokens, rewards of texts and contrastive losses, each below its name."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# ---- dpo_not_summed
def dpo_loss(
    policy: Float[Tensor, "N L"],
    ref: Float[Tensor, "N L"],
    mask: Float[Tensor, "N L"],
    beta: float,
) -> Float[Tensor, "N"]:
    ratio = (policy - ref) * mask
    return -F.logsigmoid(beta * ratio)  # WRONG: never summed over tokens, (N, L) for (N,)

def main() -> None:
    print(dpo_loss(torch.zeros(2, 5), torch.zeros(2, 5), torch.ones(2, 5), 0.1).shape)

# ---- floor_div_int_rewards
import numpy as np
def normalised(rewards: Int[np.ndarray, "T"], horizon: int) -> Float[np.ndarray, "T"]:
    return rewards // horizon  # WRONG: // of integers is an integer, small rewards become 0

def main() -> None:
    print(normalised(np.array([1, 7, 12]), 10))

# ---- grpo_group_mean_no_keepdim
def group_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    mean = rewards.mean(dim=1)
    std = rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + 1e-6)  # WRONG: (P, G) - (P,) aligns P with G

def main() -> None:
    print("silent when square:", group_advantages(torch.randn(4, 4)).shape)
    print(group_advantages(torch.randn(3, 4)))

# ---- infonce_no_transpose
def info_nce(anchor: Float[Tensor, "N D"], positive: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    n, _ = anchor.shape
    logits = anchor @ positive / 0.07  # WRONG: (N, D) @ (N, D), the transpose is missing
    return F.cross_entropy(logits, torch.arange(n))

def main() -> None:
    print(info_nce(torch.randn(8, 16), torch.randn(8, 16)))

# ---- kl_mask_unshifted
def masked_kl(
    mask: Float[Tensor, "N L"], logp: Float[Tensor, "N L-1"], ref_logp: Float[Tensor, "N L-1"]
) -> Float[Tensor, "N"]:
    kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
    return (kl * mask).sum(dim=1)  # WRONG: L-1 tokens against a mask of L

def main() -> None:
    print(masked_kl(torch.ones(2, 5), torch.zeros(2, 4), torch.zeros(2, 4)))

# ---- loc_clip_fraction_bool_mean
def main() -> None:
    ratio = torch.ones(128)
    clipped = (ratio - 1.0).abs() > 0.2
    print(clipped.mean())  # WRONG: mean of a bool tensor raises

# ---- loc_logsumexp_no_keepdim
def main() -> None:
    logits = torch.randn(8, 50)
    logp = logits - torch.logsumexp(logits, dim=-1)  # WRONG: (8, 50) - (8,)
    print(logp.shape)

# ---- loc_segment_lengths
def main() -> None:
    cu_seqlens = torch.tensor([0, 3, 7, 12])
    lengths = cu_seqlens[1:] - cu_seqlens  # WRONG: 3 boundaries against 4
    print(lengths)

# ---- mask_batch_major
def masked_return(rewards: Float[Tensor, "T B"], alive: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
    masked = rewards * alive  # WRONG: (T, B) against (B, T)
    return masked.sum(dim=0)

def main() -> None:
    print("silent when T == B:", masked_return(torch.ones(4, 4), torch.ones(4, 4)).shape)
    masked_return(torch.ones(6, 4), torch.ones(4, 6))

# ---- nll_column_target
def bc_loss(logits: Float[Tensor, "N A"], actions: Int[Tensor, "N 1"]) -> Float[Tensor, ""]:
    return F.nll_loss(logits.log_softmax(-1), actions)  # WRONG: targets (N, 1), (N,) is needed

def main() -> None:
    print(bc_loss(torch.zeros(4, 3), torch.zeros(4, 1, dtype=torch.long)))

# ---- sequence_mean_keepdim
def seq_mean(kl: Float[Tensor, "N L"], mask: Float[Tensor, "N L"]) -> Float[Tensor, "N"]:
    total = (kl * mask).sum(dim=-1)
    count = mask.sum(dim=-1, keepdim=True)
    return total / count  # WRONG: (N,) / (N, 1) is (N, N)

def main() -> None:
    print(seq_mean(torch.ones(3, 5), torch.ones(3, 5)).shape)

# ---- token_logprob_unshifted_labels
def token_logprobs(
    logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]
) -> Float[Tensor, "N L-1"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    return logp.gather(2, labels.unsqueeze(-1)).squeeze(-1)  # WRONG: log-probs of L-1, labels of L

def main() -> None:
    print(token_logprobs(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long)).shape)
