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

# ---- shipped_logp_times_reward_of_samples
from typedbatch.posttraining import Ready, token_logp
def reinforce(model: torch.nn.Module, batch: Ready) -> Tensor:
    logp = token_logp(model, batch)
    return -logp * batch.rewards  # WRONG: a value for each token, and one for each sample


def main() -> None:
    print(reinforce.__name__)

# ---- shipped_values_against_rewards_of_samples
from typedbatch.posttraining import Ready, token_values
def critic_loss(critic: torch.nn.Module, batch: Ready) -> Tensor:
    return (token_values(critic, batch) - batch.rewards) ** 2  # WRONG: a value for each token, and one for each sample


def main() -> None:
    print(critic_loss.__name__)

# ---- shipped_mean_of_groups_on_tokens
from typedbatch.posttraining import Scored
from typedbatch.rows import groups
def advantages(batch: Scored) -> Tensor:
    by_prompt = groups(batch, "uid")
    centered = batch.rewards - by_prompt.mean(batch.rewards)
    return centered * batch.loss_mask  # WRONG: the rewards are of samples, (N,), the mask of tokens


def main() -> None:
    print(advantages.__name__)

# ---- shipped_teachers_tokens_not_summed
from typedbatch.posttraining import Distillation, token_logp
def distillation(model: torch.nn.Module, batch: Distillation) -> Tensor:
    logp = token_logp(model, batch, ids=batch.teacher_ids)
    apart = batch.teacher_logp.exp() * (batch.teacher_logp - logp)
    return apart * batch.loss_mask  # WRONG: never summed over the teacher's tokens


def main() -> None:
    print(distillation.__name__)

# ---- shipped_loss_has_no_axis
from typedbatch.posttraining import Ready, aggregate
def per_sample(batch: Ready, losses: Tensor) -> Tensor:
    total = aggregate(losses, batch.loss_mask)
    return total[:, None] * batch.advantages  # WRONG: the loss is one number


def main() -> None:
    print(per_sample.__name__)
