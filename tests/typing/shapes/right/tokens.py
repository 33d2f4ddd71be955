"""Right programs about tokens, rewards of texts and contrastive losses, each below its name."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor

# ---- bce_class_weights
@jaxtyped(typechecker=beartype)
def multilabel(logits: Float[Tensor, "N C"], labels: Bool[Tensor, "N C"], row_weight: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    positives = labels.sum(0)
    pos_weight = (len(labels) - positives) / positives.clamp(min=1)
    loss = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=pos_weight, reduction="none")
    return (loss.mean(dim=1) * row_weight).sum() / row_weight.sum()

@jaxtyped(typechecker=beartype)
def gan(real: Float[Tensor, "N 1"], fake: Float[Tensor, "M 1"]) -> Float[Tensor, ""]:
    bce = F.binary_cross_entropy_with_logits
    return bce(real, torch.ones_like(real)) + bce(fake, torch.zeros(len(fake), 1))

def main() -> None:
    assert multilabel(torch.randn(4, 3), torch.rand(4, 3) > 0.5, torch.ones(4)).shape == ()
    assert gan(torch.randn(4, 1), torch.randn(6, 1)).shape == ()

# ---- masks_of_lengths
def padding(prompts: int) -> Bool[Tensor, "N P"]:
    lengths = torch.randint(4, (4, 1))
    return (torch.arange(4) >= lengths) & (torch.arange(4)[None] < torch.full((4, 1), prompts))

def main() -> None:
    assert padding(4).shape == (4, 4)

# ---- beam_search_step
@jaxtyped(typechecker=beartype)
def beam_step(scores: Float[Tensor, "B K"], logp: Float[Tensor, "B K V"], seqs: Int[Tensor, "B K L"]) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K L+1"]]:
    b, k, v = logp.shape
    total = (scores.unsqueeze(-1) + logp).view(b, k * v)
    best, flat = total.topk(k, dim=1)
    beam, token = flat // v, flat % v
    parents = seqs.gather(1, beam.unsqueeze(-1).expand(-1, -1, seqs.size(2)))
    return best, torch.cat([parents, token.unsqueeze(-1)], dim=-1)

def main() -> None:
    s, q = beam_step(torch.zeros(2, 3), torch.randn(2, 3, 7), torch.zeros(2, 3, 4, dtype=torch.long))
    assert s.shape == (2, 3) and q.shape == (2, 3, 5)

# ---- decision_transformer_interleave
@jaxtyped(typechecker=beartype)
def interleave(r: Float[Tensor, "B T D"], s: Float[Tensor, "B T D"], a: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B 3*T D"], Float[Tensor, "B T D"]]:
    b, t, d = s.shape
    seq = torch.stack((r, s, a), dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, d)
    state_out = seq.view(b, t, 3, d).permute(0, 2, 1, 3)[:, 1]
    assert torch.equal(seq[:, 1::3], state_out)
    return seq, state_out

def main() -> None:
    x, y = interleave(torch.randn(2, 4, 3), torch.randn(2, 4, 3), torch.randn(2, 4, 3))
    assert x.shape == (2, 12, 3) and y.shape == (2, 4, 3)

# ---- decode_loop_growing
from typing import Callable
def generate(step: "Callable[[Tensor], Tensor]", ids: Int[Tensor, "N L"], steps: int) -> Int[Tensor, "N M"]:
    finished = torch.zeros(ids.shape[0], dtype=torch.bool)
    for _ in range(steps):
        nxt = step(ids).argmax(-1)
        nxt = torch.where(finished, 0, nxt)
        ids = torch.cat([ids, nxt[:, None]], dim=1)
        finished |= nxt == 0
        if finished.all():
            break
    return ids

def main() -> None:
    fn: Callable[[Tensor], Tensor] = lambda ids: F.one_hot(ids[:, -1] + 1, 20).float()
    assert generate(fn, torch.ones(2, 3, dtype=torch.long), 4).shape == (2, 7)

# ---- distillation_soft_targets
@jaxtyped(typechecker=beartype)
def distill(student: Float[Tensor, "N V"], teacher: Float[Tensor, "N V"]) -> Float[Tensor, ""]:
    soft = F.cross_entropy(student / 2, (teacher / 2).softmax(dim=1))
    kl = F.kl_div(student.log_softmax(1), teacher.log_softmax(1), reduction="none", log_target=True).sum(1)
    hard = F.cross_entropy(student, teacher.argmax(1), weight=torch.ones(student.size(1)))
    return soft + kl.mean() + hard

def main() -> None:
    assert distill(torch.randn(3, 5), torch.randn(3, 5)).shape == ()

# ---- dpo_concatenated_forward
def sequence_logp(logits: Float[Tensor, "B L V"], ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B"]:
    labels, keep = ids[:, 1:].clone(), mask[:, 1:]
    labels[~keep] = 0
    logp = logits[:, :-1].log_softmax(-1).gather(2, labels.unsqueeze(2)).squeeze(2)
    return (logp * keep).sum(-1)

def dpo(model: nn.Module, chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N L"], ref_margin: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    ids = torch.cat([chosen, rejected], dim=0)
    logp = sequence_logp(model(ids), ids, ids != 0)
    n = chosen.shape[0]
    good, bad = logp[:n], logp[n:]
    also_good, also_bad = logp.chunk(2)
    assert torch.equal(good - bad, also_good - also_bad)
    return -F.logsigmoid(0.1 * (good - bad - ref_margin)).mean()

def main() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    ids = torch.randint(9, (3, 6))
    assert dpo(model, ids, ids.flip(1), torch.zeros(3)).shape == ()

# ---- grpo_repeat_interleave
@jaxtyped(typechecker=beartype)
def grpo(rewards: Float[Tensor, "B"], group: int) -> Float[Tensor, "B"]:
    grouped = rewards.reshape(-1, group)
    mean = grouped.mean(dim=1).repeat_interleave(group)
    std = grouped.std(dim=1).repeat_interleave(group, dim=0)
    return (rewards - mean) / (std + 1e-4)

def main() -> None:
    assert grpo(torch.randn(12), 4).shape == (12,)

# ---- grpo_token_loss
@jaxtyped(typechecker=beartype)
def grpo_loss(
    logp: Float[Tensor, "N L"], old: Float[Tensor, "N L"], adv: Float[Tensor, "N"], mask: Bool[Tensor, "N L"]
) -> Float[Tensor, ""]:
    ratio = (logp - old).exp()
    adv_t = adv.unsqueeze(1)
    obj = torch.min(ratio * adv_t, ratio.clamp(0.8, 1.2) * adv_t)
    per_seq = (obj * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    return -per_seq.mean()

def main() -> None:
    x = torch.randn(3, 5)
    assert grpo_loss(x, x, torch.randn(3), torch.ones(3, 5, dtype=torch.bool)).shape == ()

# ---- ignore_index_gather
@jaxtyped(typechecker=beartype)
def nll(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
    keep = labels.ne(-100)
    safe = torch.where(keep, labels, 0)
    logp = logits.log_softmax(-1).gather(-1, safe[:, :, None]).squeeze(-1)
    return -(logp * keep).sum(1) / keep.sum(1).clamp_min(1)

def main() -> None:
    assert nll(torch.randn(2, 3, 4), torch.tensor([[1, 2, -100], [0, -100, -100]])).shape == (2,)

# ---- infonce_symmetric
@jaxtyped(typechecker=beartype)
def clip_loss(img: Float[Tensor, "N D"], txt: Float[Tensor, "N D"], scale: Float[Tensor, ""]) -> Float[Tensor, ""]:
    img = img / img.norm(dim=-1, keepdim=True)
    txt = txt / txt.norm(dim=-1, keepdim=True)
    logits = scale.exp() * img @ txt.T
    labels = torch.arange(len(img))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

def main() -> None:
    loss = clip_loss(torch.randn(8, 4), torch.randn(8, 4), torch.tensor(0.0))
    assert loss.shape == () and loss.item() > 0

# ---- last_token_gather_expand
@jaxtyped(typechecker=beartype)
def last_token(h: Float[Tensor, "N L D"], mask: Int[Tensor, "N L"]) -> Float[Tensor, "N D"]:
    idx = mask.sum(dim=1) - 1
    idx = idx[:, None, None].expand(-1, 1, h.size(-1))
    return h.gather(1, idx).squeeze(1)

@jaxtyped(typechecker=beartype)
def last_reward(r: Float[Tensor, "N L"], mask: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
    last = mask.cumsum(1).argmax(1)
    return torch.take_along_dim(r, last.unsqueeze(-1), 1).squeeze(-1)

def main() -> None:
    m = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert last_token(torch.randn(2, 3, 4), m).shape == (2, 4)
    assert last_reward(torch.tensor([[1.0, 2, 3], [4, 5, 6]]), m).tolist() == [2, 6]

# ---- length_mask
import numpy as np
@jaxtyped(typechecker=beartype)
def length_mask(lengths: Int[Tensor, "N"], max_len: int) -> Bool[Tensor, "N {max_len}"]:
    return torch.arange(max_len) < lengths[:, None]

@jaxtyped(typechecker=beartype)
def np_length_mask(lengths: Int[np.ndarray, "N"]) -> Bool[np.ndarray, "N L"]:
    return np.arange(lengths.max())[None] < np.expand_dims(lengths, 1)

def main() -> None:
    assert length_mask(torch.tensor([1, 3]), 4).sum() == 4
    assert np_length_mask(np.array([1, 3])).shape == (2, 3)

# ---- nucleus_sampling
@jaxtyped(typechecker=beartype)
def top_p(logits: Float[Tensor, "N V"], p: float) -> Int[Tensor, "N 1"]:
    values, order = logits.sort(dim=-1, descending=True)
    cum = values.softmax(-1).cumsum(-1)
    drop = cum > p
    drop[..., 1:] = drop[..., :-1].clone()
    drop[..., 0] = False
    logits = logits.masked_fill(drop.scatter(1, order, drop), -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1)

@jaxtyped(typechecker=beartype)
def top_k(logits: Float[Tensor, "N V"], k: int, temperature: Float[Tensor, "N"]) -> Int[Tensor, "N"]:
    kth = logits.topk(k, dim=-1).values[:, -1:]
    logits = torch.where(logits < kth, torch.full_like(logits, -torch.inf), logits)
    return torch.multinomial((logits / temperature[:, None]).softmax(-1), 1).squeeze(1)

def main() -> None:
    assert top_p(torch.randn(3, 7), 0.9).shape == (3, 1)
    assert top_k(torch.randn(3, 7), 2, torch.ones(3)).shape == (3,)

# ---- packed_document_mask
@jaxtyped(typechecker=beartype)
def block_causal(doc: Int[Tensor, "B L"]) -> Bool[Tensor, "B 1 L L"]:
    length = doc.shape[1]
    pos = torch.arange(length)
    causal = pos[:, None] >= pos
    same = doc[:, :, None] == doc[:, None, :]
    return (same & causal).unsqueeze(1)

def main() -> None:
    m = block_causal(torch.tensor([[0, 0, 1, 1]]))
    assert m.shape == (1, 1, 4, 4) and m.sum() == 6

# ---- pair_padding_to_longest
@jaxtyped(typechecker=beartype)
def pad_to(x: Int[Tensor, "N _"], length: int, value: int) -> Int[Tensor, "N {length}"]:
    return F.pad(x, (0, length - x.size(1)), value=value)

def joined(chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N M"]) -> Int[Tensor, "2*N K"]:
    longest = max(chosen.size(1), rejected.size(1))
    return torch.cat([pad_to(chosen, longest, 0), pad_to(rejected, longest, 0)])

def main() -> None:
    a, b = torch.ones(3, 5, dtype=torch.long), torch.ones(3, 7, dtype=torch.long)
    assert joined(a, b).shape == (6, 7)

# ---- plackett_luce_listwise
@jaxtyped(typechecker=beartype)
def listwise(scores: Float[Tensor, "N K"], rank: Int[Tensor, "N K"]) -> Float[Tensor, "N"]:
    ordered = scores.gather(1, rank)
    tail = ordered.flip(-1).logcumsumexp(-1).flip(-1)
    return (ordered - tail).sum(-1)

@jaxtyped(typechecker=beartype)
def all_pairs(scores: Float[Tensor, "N K"], rewards: Float[Tensor, "N K"]) -> Float[Tensor, "N"]:
    ds = scores.unsqueeze(2) - scores.unsqueeze(1)
    dr = rewards.unsqueeze(2) - rewards.unsqueeze(1)
    upper = torch.triu(torch.ones(scores.size(1), scores.size(1)), 1)
    return ((ds - dr) ** 2 * upper).sum(dim=(1, 2))

def main() -> None:
    s = torch.randn(3, 4)
    assert listwise(s, s.argsort(1)).shape == all_pairs(s, s).shape == (3,)

# ---- reward_model_pair_of_tuples
class RewardModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(10, 6), nn.Linear(6, 1, bias=False)

    @jaxtyped(typechecker=beartype)
    def forward(self, ids: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
        scores = self.head(self.emb(ids))[..., 0]
        return scores[:, -1]

def margin(model: RewardModel, *pairs: Int[Tensor, "N _"]) -> Float[Tensor, "N"]:
    good, bad = (model(p) for p in pairs)
    return good - bad

def main() -> None:
    a, b = torch.randint(10, (4, 3)), torch.randint(10, (4, 8))
    assert margin(RewardModel(), a, b).shape == (4,)

# ---- rloo_advantages
@jaxtyped(typechecker=beartype)
def rloo(rewards: Float[Tensor, "B"], group: int) -> Float[Tensor, "B"]:
    r = rewards.view(-1, group)
    baseline = (r.sum(dim=1, keepdim=True) - r) / (group - 1)
    return (r - baseline).view(-1)

@jaxtyped(typechecker=beartype)
def grpo(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P*G"]:
    mean, std = rewards.mean(1, keepdim=True), rewards.std(1, keepdim=True)
    return ((rewards - mean) / (std + 1e-4)).flatten()

def main() -> None:
    assert rloo(torch.randn(12), 4).shape == (12,)
    assert grpo(torch.randn(3, 4)).shape == (12,)

# ---- segment_means
@jaxtyped(typechecker=beartype)
def segment_mean(x: Float[Tensor, "L D"], seg: Int[Tensor, "L"], n: int) -> Float[Tensor, "{n} D"]:
    total = torch.zeros(n, x.shape[1]).index_add(0, seg, x)
    count = torch.bincount(seg, minlength=n)
    return total / count.clamp(min=1).unsqueeze(1)

@jaxtyped(typechecker=beartype)
def from_boundaries(x: Float[Tensor, "L"], cu: Int[Tensor, "K"]) -> Float[Tensor, "K-1"]:
    lengths = cu[1:] - cu[:-1]
    parts = torch.split(x, lengths.tolist())
    out = torch.stack([p.sum() for p in parts])
    return out / lengths

def main() -> None:
    assert segment_mean(torch.randn(5, 2), torch.tensor([0, 0, 2, 2, 2]), 3).shape == (3, 2)
    assert from_boundaries(torch.ones(7), torch.tensor([0, 3, 7])).tolist() == [1, 1]

# ---- shifted_logprobs_padded_back
@jaxtyped(typechecker=beartype)
def aligned_logprobs(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    out = torch.zeros(ids.shape)
    out[:, 1:] = logp.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return out

@jaxtyped(typechecker=beartype)
def rolled(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    labels = ids.roll(-1, dims=1)
    nll = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    nll[:, -1] = 0.0
    return -nll

def main() -> None:
    logits, ids = torch.randn(2, 6, 9), torch.randint(9, (2, 6))
    a, b = aligned_logprobs(logits, ids), rolled(logits, ids)
    assert a.shape == b.shape == (2, 6)
    assert torch.allclose(a[:, 1:], b[:, :-1], atol=1e-5)

# ---- shifted_token_logprobs
@jaxtyped(typechecker=beartype)
def token_logprobs(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L-1"]:
    logits, labels = logits[:, :-1, :], ids[:, 1:]
    picked = torch.gather(logits, 2, labels[..., None])[..., 0]
    return picked - torch.logsumexp(logits, dim=-1)

def main() -> None:
    out = token_logprobs(torch.randn(2, 6, 9), torch.randint(9, (2, 6)))
    assert out.shape == (2, 5)

# ---- simclr_two_views
@jaxtyped(typechecker=beartype)
def nt_xent(a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    n = a.shape[0]
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.mT / 0.5
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    labels = (torch.arange(2 * n) + n) % (2 * n)
    positive = sim[torch.arange(2 * n), labels]
    other = torch.cat([sim.diagonal(n), sim.diagonal(-n)])
    assert torch.equal(positive, other)
    return F.cross_entropy(sim, labels)

def main() -> None:
    assert nt_xent(torch.randn(4, 3), torch.randn(4, 3)).shape == ()

# ---- sparse_reward_at_eos
@jaxtyped(typechecker=beartype)
def add_terminal_reward(kl: Float[Tensor, "N L"], score: Float[Tensor, "N"], ends: Int[Tensor, "N"]) -> Float[Tensor, "N L"]:
    rewards = -0.1 * kl
    rewards[torch.arange(len(score)), ends] += score
    return rewards

@jaxtyped(typechecker=beartype)
def by_scatter(score: Float[Tensor, "N"], ends: Int[Tensor, "N"], length: int) -> Float[Tensor, "N L"]:
    out = torch.zeros(score.shape[0], length)
    return out.scatter(1, ends.unsqueeze(1), score.unsqueeze(1))

def main() -> None:
    assert add_terminal_reward(torch.zeros(2, 4), torch.ones(2), torch.tensor([1, 3])).sum() == 2
    assert by_scatter(torch.ones(2), torch.tensor([1, 3]), 5).shape == (2, 5)

# ---- triplet_hard_negative
@jaxtyped(typechecker=beartype)
def batch_hard(x: Float[Tensor, "N D"], label: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    sq = x.pow(2).sum(1)
    dist = sq[:, None] - 2 * x @ x.t() + sq[None, :]
    same = label[:, None] == label
    hardest_pos = (dist * same).max(1)[0]
    hardest_neg = torch.where(same, torch.inf, dist).min(1)[0]
    return F.relu(hardest_pos - hardest_neg + 0.2)

def main() -> None:
    assert batch_hard(torch.randn(4, 3), torch.tensor([0, 0, 1, 1])).shape == (4,)
