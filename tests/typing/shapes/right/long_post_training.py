"""LLM post-training: GRPO/DPO/PPO token masks, packing, beam search, CTC."""
from __future__ import annotations
import torch
import torch.nn.functional as F
import numpy as np
from torch import Tensor
from typing import Optional, Sequence, Callable
from jaxtyping import Float, Int, Bool, Float32, Int64, jaxtyped
from beartype import beartype
from typedbatch import BatchRecord
tc = jaxtyped(typechecker=beartype)
NEG = -1e9

class Tok(BatchRecord):
    ids: Int64[Tensor, "N L"]
    mask: Bool[Tensor, "N L"]
    logp_old: Float32[Tensor, "N L"]
    logp_ref: Float32[Tensor, "N L"]
    adv: Float32[Tensor, "N"]

def masked_mean(x: Float[Tensor, "*s"], m: Bool[Tensor, "*s"], dim: Optional[int] = None, eps: float = 1e-8) -> Float[Tensor, "..."]:
    mf = m.to(x.dtype)
    return (x * mf).sum(dim) / (mf.sum(dim) + eps) if dim is not None else (x * mf).sum() / (mf.sum() + eps)

@tc
def masked_whiten(x: Float[Tensor, "N L"], m: Bool[Tensor, "N L"], shift: bool = True) -> Float[Tensor, "N L"]:
    mean = masked_mean(x, m)
    var = masked_mean((x - mean) ** 2, m)
    w = (x - mean) * torch.rsqrt(var + 1e-8)
    if not shift:
        w += mean
    return w.masked_fill(~m, 0.0)

@tc
def token_logps(logits: Float[Tensor, "N L V"], ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L-1"]:
    logits = logits[:, :-1]
    labels = ids[:, 1:]
    lp = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    alt = -F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1), reduction="none").view(labels.shape)
    alt2 = -F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    assert torch.allclose(lp, alt, atol=1e-5) and torch.allclose(alt2, alt, atol=1e-5)
    return lp

@tc
def group_adv(rew: Float[Tensor, "N"], g: int) -> Float[Tensor, "N"]:
    r = rew.view(-1, g)
    mean, std = r.mean(1, keepdim=True), r.std(1, keepdim=True)
    a = (r - mean) / (std + 1e-4)
    loo = (r.sum(1, keepdim=True) - r) / (g - 1)
    m2 = r.mean(1).repeat_interleave(g, dim=0)
    assert m2.shape == rew.shape
    return a.flatten() + 0 * (rew - loo.reshape(-1)) + 0 * m2

def grpo_loss(b: Tok, logp: Float[Tensor, "N L"], clip: float = 0.2, beta: float = 0.04) -> Float[Tensor, ""]:
    ratio = (logp - b.logp_old).exp()
    adv = b.adv[:, None]
    pg = -torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    d = b.logp_ref - logp
    kl = d.exp() - d - 1
    per = pg + beta * kl
    seq = (per * b.mask).sum(-1) / b.mask.sum(-1).clamp(min=1)
    tok = (per * b.mask).sum() / b.mask.sum()
    return seq.mean() + 0 * tok

@tc
def dpo_loss(pc: Float[Tensor, "B"], pr: Float[Tensor, "B"], rc: Float[Tensor, "B"], rr: Float[Tensor, "B"], beta: float = 0.1) -> tuple[Float[Tensor, ""], Float[Tensor, "B"]]:
    logits = (pc - pr) - (rc - rr)
    loss = -F.logsigmoid(beta * logits)
    return loss.mean(), beta * (pc - rc).detach()

def dpo_concat(model: Callable[[Tensor], Tensor], ch: Int[Tensor, "B Lc"], rj: Int[Tensor, "B Lr"], pad: int = 0) -> tuple[Tensor, Tensor]:
    n = max(ch.shape[1], rj.shape[1])
    ids = torch.cat([F.pad(ch, (0, n - ch.shape[1]), value=pad), F.pad(rj, (0, n - rj.shape[1]), value=pad)], 0)
    lp = token_logps(model(ids), ids)
    s = (lp * (ids[:, 1:] != pad)).sum(-1)
    B = len(ch)
    return s[:B], s[B:]

def pack(seqs: Sequence[Int[Tensor, "l"]], L: int) -> tuple[Int[Tensor, "R L"], Int[Tensor, "R L"], Int[Tensor, "R L"]]:
    rows: list[list[Tensor]] = [[]]
    for s in seqs:
        if sum(map(len, rows[-1])) + len(s) > L:
            rows.append([])
        rows[-1].append(s)
    ids = torch.zeros(len(rows), L, dtype=torch.long)
    seg = torch.zeros_like(ids)
    pos = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        o = 0
        for j, s in enumerate(row, 1):
            n = s.shape[0]
            ids[i, o:o + n] = s
            seg[i, o:o + n] = j
            pos[i, o:o + n] = torch.arange(n)
            o += n
    return ids, seg, pos

def packed_mask(seg: Int[Tensor, "R L"]) -> Bool[Tensor, "R 1 L L"]:
    same = seg[:, :, None] == seg[:, None, :]
    L = seg.shape[1]
    causal = torch.ones(L, L, dtype=torch.bool).tril()
    valid = (seg > 0)[:, None, :]
    m = same & causal & valid
    return m.unsqueeze(1)

def cu_seqlens(seg: Int[Tensor, "R L"]) -> Int[Tensor, "S"]:
    flat = seg.flatten()
    change = torch.cat([torch.ones(1, dtype=torch.bool), flat[1:] != flat[:-1]])
    starts = change.nonzero().squeeze(1)
    return torch.cat([starts, torch.tensor([flat.numel()])]).to(torch.int32)

def token_gae(values: Float[Tensor, "N L"], rew: Float[Tensor, "N L"], m: Bool[Tensor, "N L"], lam: float = 0.95) -> tuple[Tensor, Tensor]:
    last: float | Tensor = 0
    adv_rev = []
    L = rew.shape[-1]
    for t in reversed(range(L)):
        nv = values[:, t + 1] if t < L - 1 else 0.0
        delta = rew[:, t] + nv - values[:, t]
        last = delta + lam * last
        adv_rev.append(last)
    adv = torch.stack(adv_rev[::-1], dim=1)
    return masked_whiten(adv, m), adv + values

@torch.no_grad()
def beam(step: Callable[[Tensor], Tensor], prompt: Int[Tensor, "B L"], k: int, n: int, eos: int = 1) -> tuple[Int[Tensor, "B k M"], Float[Tensor, "B k"]]:
    B, L = prompt.shape
    seqs = prompt[:, None].expand(B, k, L).contiguous()
    scores = torch.full((B, k), NEG)
    scores[:, 0] = 0.0
    done = torch.zeros(B, k, dtype=torch.bool)
    for _ in range(n):
        lp = step(seqs.view(B * k, -1)).view(B, k, -1)
        V = lp.shape[-1]
        frozen = torch.full((V,), NEG)
        frozen[eos] = 0.0
        lp = torch.where(done[..., None], frozen, lp)
        tot = scores[..., None] + lp
        scores, flat = tot.view(B, -1).topk(k, dim=-1)
        parent = flat // V
        tok = flat % V
        seqs = seqs.gather(1, parent[..., None].expand(-1, -1, seqs.size(-1)))
        seqs = torch.cat([seqs, tok.unsqueeze(-1)], dim=-1)
        done = done.gather(1, parent) | (tok == eos)
        if done.all():
            break
    return seqs, scores

def ctc(lp: Float[Tensor, "T N C"], tgt: Int[Tensor, "N S"], blank: int = 0) -> Float[Tensor, "N"]:
    T, N, C = lp.shape
    S = tgt.shape[1]
    ext = torch.full((N, 2 * S + 1), blank)
    ext[:, 1::2] = tgt
    skip = torch.zeros(N, 2 * S + 1, dtype=torch.bool)
    skip[:, 2:] = (ext[:, 2:] != blank) & (ext[:, 2:] != ext[:, :-2])
    a = torch.full((N, 2 * S + 1), -torch.inf)
    a[:, 0] = lp[0, :, blank]
    a[:, 1] = lp[0].gather(1, ext[:, 1:2]).squeeze(1)
    for t in range(1, T):
        s1 = F.pad(a, (1, 0), value=-torch.inf)[:, :-1]
        s2 = F.pad(a, (2, 0), value=-torch.inf)[:, :-2]
        s2 = s2.masked_fill(~skip, -torch.inf)
        a = torch.logsumexp(torch.stack([a, s1, s2]), 0) + lp[t].gather(1, ext)
    return -torch.logaddexp(a[:, -1], a[:, -2])

def edit_distance(a: Int[np.ndarray, "n"], b: Int[np.ndarray, "m"]) -> int:
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1), dtype=np.int64)
    D[:, 0] = np.arange(n + 1)
    D[0] = np.arange(m + 1)
    sub = (a[:, None] != b[None]).astype(np.int64)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + sub[i - 1, j - 1])
    return int(D[-1, -1])

def top_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    s, ix = logits.sort(-1, descending=True)
    c = s.softmax(-1).cumsum(-1)
    rm = c > p
    rm[..., 1:] = rm[..., :-1].clone()
    rm[..., 0] = False
    return logits.masked_fill(rm.scatter(1, ix, rm), -torch.inf)

def ngram_block(ids: Int[Tensor, "B L"], n: int) -> Int[Tensor, "B W n"]:
    w = ids.unfold(1, n, 1)
    h = (w * torch.tensor([31 ** i for i in range(n)])).sum(-1)
    dup = (h[:, :, None] == h[:, None]).triu(1).any(-1)
    assert dup.shape == w.shape[:2]
    return w

def main() -> None:
    torch.manual_seed(0)
    V = 11
    emb = torch.randn(V, V)
    model = lambda ids: emb[ids]
    ids = torch.randint(1, V, (6, 8))
    lp = token_logps(model(ids), ids)
    assert lp.shape == (6, 7)
    adv = group_adv(torch.rand(6), 3)
    b = Tok(ids=ids[:, 1:], mask=torch.ones(6, 7, dtype=torch.bool), logp_old=lp, logp_ref=lp, adv=adv)
    assert grpo_loss(b, lp).ndim == 0
    c, r = dpo_concat(model, ids[:, :5], ids)
    dpo_loss(c, r, c, r)
    pid, seg, pos = pack([torch.arange(n) for n in (3, 4, 5, 2)], 8)
    assert pid.shape == (2, 8) and packed_mask(seg).shape == (2, 1, 8, 8)
    assert cu_seqlens(seg).dtype == torch.int32
    w, ret = token_gae(torch.rand(3, 5), torch.rand(3, 5), torch.ones(3, 5).bool())
    assert w.shape == ret.shape == (3, 5)
    s, sc = beam(lambda q: model(q[:, -1]).log_softmax(-1), ids[:2, :3], 4, 5)
    assert s.shape[:2] == (2, 4)
    L = torch.randn(9, 2, 5).log_softmax(-1)
    tgt = torch.tensor([[1, 2, 2], [3, 4, 1]])
    ref = F.ctc_loss(L, tgt, torch.tensor([9, 9]), torch.tensor([3, 3]), reduction="none")
    assert torch.allclose(ctc(L, tgt), ref, atol=1e-4)
    assert edit_distance(np.array([1, 2, 3]), np.array([1, 3])) == 1
    top_p(torch.randn(2, 7), 0.8)
    assert ngram_block(ids, 3).shape == (6, 6, 3)

if __name__ == "__main__":
    main()
