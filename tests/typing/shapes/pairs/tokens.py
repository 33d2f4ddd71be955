"""Pairs of programs about tokens, rewards of texts and contrastive losses, each below its name."""

from __future__ import annotations

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

# ---- mod_beam_scores
# Batched beam search over a toy bigram language model.
def step_logp(table: Float[Tensor, "V V"], last: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
    return table[last].log_softmax(dim=-1)


def expand_beams(
    seqs: Int[Tensor, "B K L"],
    scores: Float[Tensor, "B K"],
    logp: Float[Tensor, "B K V"],
) -> tuple[Int[Tensor, "B K L+1"], Float[Tensor, "B K"]]:
    B, K, V = logp.shape
    total = scores.unsqueeze(-1) + logp
    # wrong: total = scores.unsqueeze(1) + logp  # WRONG
    scores, flat = total.view(B, K * V).topk(K, dim=-1)
    beam, token = flat // V, flat % V
    parents = seqs.gather(1, beam.unsqueeze(-1).expand(-1, -1, seqs.shape[-1]))
    return torch.cat([parents, token.unsqueeze(-1)], dim=-1), scores


def beam_search(
    table: Float[Tensor, "V V"], start: Int[Tensor, "B"], beams: int, steps: int
) -> tuple[Int[Tensor, "B L"], Float[Tensor, "B"]]:
    seqs = start[:, None, None].repeat(1, beams, 1)
    scores = torch.full((start.shape[0], beams), float("-inf"))
    scores[:, 0] = 0.0
    for _ in range(steps):
        seqs, scores = expand_beams(seqs, scores, step_logp(table, seqs[:, :, -1]))
    return seqs[:, 0], scores[:, 0]


def main() -> None:
    torch.manual_seed(0)
    vocab = 12
    table = torch.randn(vocab, vocab)
    best, score = beam_search(table, torch.tensor([0, 3, 5]), beams=4, steps=6)
    for row, s in zip(best.tolist(), score.tolist()):
        print(f"{s:.3f}", row)

# ---- mod_causal_attention_merge
# GPT-style causal self-attention with a fused qkv projection.
class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd: int, n_head: int, block_size: int) -> None:
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        mask = torch.tril(torch.ones(block_size, block_size, dtype=torch.bool))
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.mask[:T, :T], float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        y = y.transpose(1, 2).reshape(B, T, C)
        # wrong: y = y.reshape(B, T, C)  # WRONG
        return self.c_proj(y)


def main() -> None:
    torch.manual_seed(0)
    attn = CausalSelfAttention(n_embd=32, n_head=4, block_size=16)
    x = torch.randn(2, 10, 32)
    out = attn(x)
    print("out", tuple(out.shape), out.norm().item())

# ---- mod_dpo_sequence_logp
# Direct preference optimisation from policy and reference logits.
def token_logps(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T-1"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    return logp.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def sequence_logps(
    logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"], completion: Bool[Tensor, "B T"]
) -> Float[Tensor, "B"]:
    per_token = token_logps(logits, ids)
    return (per_token * completion[:, 1:]).sum(dim=-1)
    # wrong: return (per_token * completion[:, 1:]).sum(dim=0)  # WRONG


def dpo_loss(
    pi_chosen: Float[Tensor, "B"],
    pi_rejected: Float[Tensor, "B"],
    ref_chosen: Float[Tensor, "B"],
    ref_rejected: Float[Tensor, "B"],
    beta: float = 0.1,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    margin = beta * ((pi_chosen - ref_chosen) - (pi_rejected - ref_rejected))
    accuracy = (margin > 0).float().mean()
    return -F.logsigmoid(margin).mean(), accuracy


def main() -> None:
    torch.manual_seed(0)
    B, T, V = 4, 9, 30
    logps = []
    for _ in range(2):
        ids = torch.randint(0, V, (B, T))
        completion = (torch.arange(T) >= 3).expand(B, T)
        policy = torch.randn(B, T, V)
        reference = policy + 0.1 * torch.randn(B, T, V)
        logps.append((sequence_logps(policy, ids, completion), sequence_logps(reference, ids, completion)))
        # wrong: logps.append((sequence_logps(policy, ids, completion), sequence_logps(reference, ids, completion)))  # WRONG
    (pc, rc), (pr, rr) = logps
    loss, acc = dpo_loss(pc, pr, rc, rr)
    print("dpo", loss.item(), "acc", acc.item())

# ---- mod_einops_cross_attention
from einops import einsum, reduce
# Cross-attention and bilinear pooling written with einsum and einops.
def split_heads(x: Float[Tensor, "B T C"], heads: int) -> Float[Tensor, "B H T D"]:
    return rearrange(x, "b t (h d) -> b h t d", h=heads)


def cross_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S D"],
    key_mask: Bool[Tensor, "B S"],
) -> Float[Tensor, "B H T D"]:
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~rearrange(key_mask, "b s -> b 1 1 s"), -1e9)
    weights = scores.softmax(dim=-1)
    return einsum(weights, v, "b h t s, b h s d -> b h t d")
    # wrong: return einsum(weights, v, "b h t s, b h t d -> b h s d")  # WRONG


def masked_pool(x: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
    w = rearrange(mask.float(), "b t -> b t 1")
    return reduce(x * w, "b t c -> b c", "sum") / reduce(w, "b t 1 -> b 1", "sum").clamp(min=1)


def bilinear(x: Float[Tensor, "B C"], w: Float[Tensor, "C E"], y: Float[Tensor, "B E"]) -> Float[Tensor, "B"]:
    return einsum(x, w, y, "b c, c e, b e -> b")


def main() -> None:
    torch.manual_seed(0)
    B, T, C, heads = 2, 6, 16, 4
    text, audio = torch.randn(B, T, C), torch.randn(B, T, C)
    mask = torch.arange(T)[None, :] < torch.tensor([6, 4])[:, None]
    out = cross_attention(
        split_heads(text, heads), split_heads(audio, heads), split_heads(audio, heads), mask
    )
    merged = rearrange(out, "b h t d -> b t (h d)")
    score = bilinear(masked_pool(merged, mask), torch.randn(C, C), masked_pool(audio, mask))
    print("score", score.tolist())

# ---- mod_gqa_cache
from typing import NamedTuple
# Incremental decoding with a growing grouped-query KV cache, as pure functions.
class Cache(NamedTuple):
    k: Float[Tensor, "B S KV D"]
    v: Float[Tensor, "B S KV D"]


def empty_cache(batch: int, kv_heads: int, head_dim: int) -> Cache:
    return Cache(torch.zeros(batch, 0, kv_heads, head_dim), torch.zeros(batch, 0, kv_heads, head_dim))


def extend(cache: Cache, k: Float[Tensor, "B T KV D"], v: Float[Tensor, "B T KV D"]) -> Cache:
    return Cache(torch.cat([cache.k, k], dim=1), torch.cat([cache.v, v], dim=1))


def attend(q: Float[Tensor, "B T H D"], cache: Cache) -> Float[Tensor, "B T H D"]:
    groups = q.shape[2] // cache.k.shape[2]
    k = cache.k.repeat_interleave(groups, dim=2)
    # wrong: k = cache.k.repeat_interleave(groups, dim=1)  # WRONG
    v = cache.v.repeat_interleave(groups, dim=2)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    T, S = scores.shape[-2:]
    causal = torch.ones(T, S, dtype=torch.bool).tril(diagonal=S - T)
    probs = scores.masked_fill(~causal, float("-inf")).softmax(dim=-1)
    return torch.einsum("bhts,bshd->bthd", probs, v)


def main() -> None:
    torch.manual_seed(0)
    B, H, KV, D = 2, 8, 2, 16
    cache = empty_cache(B, KV, D)
    cache = extend(cache, torch.randn(B, 6, KV, D), torch.randn(B, 6, KV, D))
    prefill = attend(torch.randn(B, 6, H, D), cache)
    # wrong: prefill = attend(torch.randn(B, 6, H, D), cache)  # WRONG
    for _ in range(3):
        cache = extend(cache, torch.randn(B, 1, KV, D), torch.randn(B, 1, KV, D))
        step = attend(torch.randn(B, 1, H, D), cache)
        # wrong: step = attend(torch.randn(B, 1, H, D), cache)  # WRONG
    print(prefill.shape, step.shape, "cached", cache.k.shape[1])

# ---- mod_grpo_advantages
# GRPO: group-normalised rewards and a clipped token-level policy loss with KL.
def group_advantages(rewards: Float[Tensor, "P G"], eps: float = 1e-4) -> Float[Tensor, "P G"]:
    """Normalise each prompt's G completions against one another."""
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + eps)


def k3_kl(logp: Float[Tensor, "N T"], ref: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
    log_ratio = ref - logp
    return log_ratio.exp() - log_ratio - 1


def grpo_loss(
    logp: Float[Tensor, "N T"],
    old_logp: Float[Tensor, "N T"],
    ref_logp: Float[Tensor, "N T"],
    adv: Float[Tensor, "N"],
    mask: Bool[Tensor, "N T"],
    clip: float = 0.2,
    beta: float = 0.04,
) -> Float[Tensor, ""]:
    ratio = (logp - old_logp).exp()
    adv = adv.unsqueeze(1)
    # wrong: adv = adv.unsqueeze(0)  # WRONG
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    # wrong: surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)  # WRONG
    per_token = -surrogate + beta * k3_kl(logp, ref_logp)
    lengths = mask.sum(dim=1).clamp(min=1)
    return ((per_token * mask).sum(dim=1) / lengths).mean()


def main() -> None:
    torch.manual_seed(0)
    P, G, T = 3, 4, 12
    rewards = torch.rand(P, G)
    adv = rearrange(group_advantages(rewards), "p g -> (p g)")
    logp = -torch.rand(P * G, T)
    old = logp + 0.05 * torch.randn(P * G, T)
    ref = logp + 0.05 * torch.randn(P * G, T)
    mask = torch.arange(T)[None] < torch.randint(3, T + 1, (P * G, 1))
    print("grpo", grpo_loss(logp, old, ref, adv, mask).item())

# ---- mod_lora_shapes
# LoRA adapters wrapped around frozen linear layers of an MLP.
class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scaling = alpha / rank
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        # wrong: self.lora_b = nn.Parameter(torch.zeros(rank, base.out_features))  # WRONG

    def forward(self, x: Float[Tensor, "B T I"]) -> Float[Tensor, "B T O"]:
        delta = x @ self.lora_a.T @ self.lora_b.T
        return self.base(x) + self.scaling * delta

    @torch.no_grad()
    def merged_weight(self) -> Float[Tensor, "O I"]:
        return self.base.weight + self.scaling * (self.lora_b @ self.lora_a)


class FeedForward(nn.Module):
    def __init__(self, dim: int, mult: int = 4, rank: int = 4) -> None:
        super().__init__()
        self.up = LoRALinear(nn.Linear(dim, dim * mult), rank)
        self.down = LoRALinear(nn.Linear(dim * mult, dim), rank)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x + self.down(nn.functional.gelu(self.up(x)))


def main() -> None:
    torch.manual_seed(0)
    ff = FeedForward(dim=24)
    y = ff(torch.randn(2, 6, 24))
    # wrong: y = ff(torch.randn(2, 6, 24))  # WRONG
    y.sum().backward()
    trainable = sum(p.numel() for p in ff.parameters() if p.requires_grad)
    print("trainable", trainable, "merged", tuple(ff.up.merged_weight().shape))
    # wrong: print("trainable", trainable, "merged", tuple(ff.up.merged_weight().shape))  # WRONG

# ---- mod_numpy_pad_mask
import numpy as np
from numpy import ndarray
# Evaluation metrics in numpy: masked accuracy, perplexity and calibration error.
def log_softmax(x: Float[ndarray, "B T V"]) -> Float[ndarray, "B T V"]:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def perplexity(
    logits: Float[ndarray, "B T V"], labels: Int[ndarray, "B T"], pad_mask: Int[ndarray, "B T"]
) -> float:
    """``pad_mask`` is 1 on padding and 0 on real tokens, as the tokenizer returns it."""
    logp = np.take_along_axis(log_softmax(logits), labels[..., None], axis=-1)[..., 0]
    real = 1 - pad_mask
    # wrong: real = ~pad_mask  # WRONG
    return float(np.exp(-(logp * real).sum() / real.sum()))


def accuracy(
    logits: Float[ndarray, "B T V"], labels: Int[ndarray, "B T"], pad_mask: Int[ndarray, "B T"]
) -> float:
    hit = logits.argmax(axis=-1) == labels
    return float(hit[pad_mask == 0].mean())


def calibration_error(conf: Float[ndarray, "N"], hit: Float[ndarray, "N"], bins: int = 5) -> float:
    which = np.minimum((conf * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        sel = which == b
        if sel.any():
            total += sel.mean() * abs(conf[sel].mean() - hit[sel].mean())
    return float(total)


def main() -> None:
    rng = np.random.default_rng(0)
    B, T, V = 3, 7, 11
    logits = rng.normal(size=(B, T, V))
    labels = rng.integers(0, V, size=(B, T))
    pad_mask = (np.arange(T)[None, :] >= np.array([7, 4, 5])[:, None]).astype(np.int64)
    conf = np.exp(log_softmax(logits)).max(axis=-1).reshape(-1)
    hit = (logits.argmax(-1) == labels).astype(float).reshape(-1)
    print("ppl", perplexity(logits, labels, pad_mask))
    print("acc", accuracy(logits, labels, pad_mask), "ece", calibration_error(conf, hit))

# ---- mod_packing_mask
# Sequence packing: segment ids, restarted positions and block-diagonal causal masks.
def pack(docs: list[Int[Tensor, "_"]], length: int, pad: int = 0) -> tuple[Int[Tensor, "T"], Int[Tensor, "T"]]:
    ids = torch.cat(docs)[:length]
    seg = torch.cat([torch.full_like(d, i + 1) for i, d in enumerate(docs)])[:length]
    extra = length - ids.numel()
    return F.pad(ids, (0, extra), value=pad), F.pad(seg, (0, extra), value=0)


def positions(seg: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    T = seg.shape[1]
    idx = torch.arange(T).expand_as(seg)
    new = torch.ones_like(seg, dtype=torch.bool)
    new[:, 1:] = seg[:, 1:] != seg[:, :-1]
    start = torch.where(new, idx, torch.zeros_like(idx)).cummax(dim=1).values
    return idx - start


def same_segment(seg: Int[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    return seg[:, :, None] == seg[:, None, :]
    # wrong: return seg[:, None] == seg[:, None, :]  # WRONG


def packed_mask(seg: Int[Tensor, "B T"]) -> Bool[Tensor, "B 1 T T"]:
    T = seg.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    return (same_segment(seg) & causal).unsqueeze(1)


def attend(q: Float[Tensor, "B H T D"], seg: Int[Tensor, "B T"]) -> Float[Tensor, "B H T D"]:
    return F.scaled_dot_product_attention(q, q, q, attn_mask=packed_mask(seg))


def main() -> None:
    torch.manual_seed(0)
    rows = [
        pack([torch.arange(1, 5), torch.arange(1, 4)], 8),
        pack([torch.arange(1, 3), torch.arange(1, 7)], 8),
    ]
    ids, seg = (torch.stack(cols) for cols in zip(*rows))
    out = attend(torch.randn(2, 2, 8, 4), seg)
    # wrong: out = attend(torch.randn(2, 2, 8, 4), seg)  # WRONG
    print(ids.shape, positions(seg).tolist(), out.norm().item())

# ---- mod_reward_at_last_token
# Reward model: scalar score read at the last non-padded token, Bradley-Terry loss.
class Backbone(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        out, _ = self.mix(self.embed(ids))
        return out


class RewardModel(nn.Module):
    def __init__(self, vocab: int = 100, dim: int = 32):
        super().__init__()
        self.backbone = Backbone(vocab, dim)
        self.head = nn.Linear(dim, 1, bias=False)

    def forward(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B"]:
        hidden = self.backbone(ids)
        last = mask.long().sum(dim=1) - 1
        rows = torch.arange(ids.shape[0], device=ids.device)
        pooled = hidden[rows, last]
        # wrong: pooled = hidden[:, last]  # WRONG
        return self.head(pooled).squeeze(-1)
        # wrong: return self.head(pooled).squeeze(-1)  # WRONG


def preference_loss(chosen: Float[Tensor, "B"], rejected: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    return -F.logsigmoid(chosen - rejected).mean()


def main() -> None:
    torch.manual_seed(0)
    model = RewardModel()
    B, T = 4, 10
    chosen, rejected = torch.randint(0, 100, (2, B, T)).unbind(0)
    lengths = torch.tensor([10, 7, 5, 8])
    mask = torch.arange(T)[None, :] < lengths[:, None]
    loss = preference_loss(model(chosen, mask), model(rejected, mask))
    loss.backward()
    print("rm loss", loss.item())

# ---- mod_rotary_halves
# Rotary position embeddings applied to queries and keys (half-rotation layout).
def rope_tables(
    seq_len: int, head_dim: int, base: float = 10_000.0
) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
    inv_freq = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(seq_len).float(), inv_freq)
    emb = torch.cat((angles, angles), dim=-1)
    return emb.cos(), emb.sin()


def rotate_half(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)
    # wrong: return torch.cat((-x2, x1), dim=-2)  # WRONG


def apply_rope(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H T D"],
    cos: Float[Tensor, "T D"],
    sin: Float[Tensor, "T D"],
) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
    q_rot = q * cos + rotate_half(q) * sin
    k_rot = k * cos + rotate_half(k) * sin
    return q_rot, k_rot


def main() -> None:
    torch.manual_seed(0)
    B, H, T, D = 2, 3, 10, 16
    q, k = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    cos, sin = rope_tables(T, D)
    q_rot, k_rot = apply_rope(q, k, cos, sin)
    drift = (q_rot.norm(dim=-1) - q.norm(dim=-1)).abs().max()
    print("norm drift", drift.item(), "scores", (q_rot @ k_rot.mT).shape)

# ---- mod_tiny_transformer_lm
from dataclasses import dataclass
# Tiny pre-norm transformer language model with next-token loss.
@dataclass
class Config:
    vocab: int = 50
    dim: int = 32
    heads: int = 4
    depth: int = 2
    ctx: int = 24


class Block(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.dim)
        self.ln2 = nn.LayerNorm(cfg.dim)
        self.attn = nn.MultiheadAttention(cfg.dim, cfg.heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim)
        )

    def forward(self, x):
        T = x.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=causal, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class TinyLM(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.ctx, cfg.dim)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def lm_loss(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    # wrong: return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids.flatten())  # WRONG


def main() -> None:
    cfg = Config()
    ids = torch.randint(0, cfg.vocab, (3, 12))
    print("loss", lm_loss(TinyLM(cfg)(ids), ids).item())

# ---- mod_token_critic
# PPO value head over token states with clipped, masked value loss.
class ValueHead(nn.Module):
    def __init__(self, hidden_size: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.summary = nn.Linear(hidden_size, 1)

    def forward(self, hidden_states):
        x = torch.tanh(self.dense(self.dropout(hidden_states)))
        return self.summary(x)


class TokenCritic(nn.Module):
    def __init__(self, hidden_size: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.v_head = ValueHead(hidden_size)

    def forward(self, hidden_states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        values = self.v_head(self.norm(hidden_states))
        return values.squeeze(-1)
        # wrong: return values  # WRONG


def masked_mean(x: Float[Tensor, "B T"], mask: Float[Tensor, "B T"]) -> Float[Tensor, ""]:
    return (x * mask).sum() / mask.sum().clamp(min=1.0)


def value_loss(
    values: Float[Tensor, "B T"],
    old_values: Float[Tensor, "B T"],
    returns: Float[Tensor, "B T"],
    mask: Float[Tensor, "B T"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    losses = torch.maximum((values - returns) ** 2, (clipped - returns) ** 2)
    return 0.5 * masked_mean(losses, mask)


def main() -> None:
    torch.manual_seed(0)
    B, T, D = 3, 8, 16
    critic = TokenCritic(D)
    hidden = torch.randn(B, T, D)
    mask = torch.ones(B, T)
    mask[1, 5:] = 0
    values = critic(hidden)
    loss = value_loss(values, torch.zeros(B, T), torch.randn(B, T), mask)
    loss.backward()
    print("value loss", loss.item())
