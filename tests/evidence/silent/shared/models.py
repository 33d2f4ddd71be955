"""Small language models that programs of post-training train."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalLM(nn.Module):
    """A layer of attention that ignores padding, also in positions."""

    def __init__(self, vocab, width=16):
        super().__init__()
        self.token, self.place = nn.Embedding(vocab, width), nn.Embedding(16, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.lm_head = nn.Linear(width, vocab)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        x = self.token(ids) + self.place((mask.long().cumsum(1) - 1).clamp(min=0))
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))
        return x + self.mlp(x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


class GRULM(nn.Module):
    """A recurrent language model; where there is padding its state is carried over."""

    def __init__(self, vocab, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, vocab)

    def states(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h, states = x.new_zeros(len(x), x.shape[-1]), []
        for t in range(x.shape[1]):
            h = torch.where(attention_mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.states(input_ids, attention_mask))


class Policy(nn.Module):
    """Next token from the last token, the mean of all before it and the position: a bag of words that is causal."""

    def __init__(self, vocab, d_model=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, d_model)
        self.wpe = nn.Embedding(16, d_model)
        self.net = nn.Sequential(nn.Linear(3 * d_model, 32), nn.Tanh(), nn.Linear(32, vocab))

    def forward(self, ids, attention_mask):
        m = attention_mask.unsqueeze(-1).float()
        count = attention_mask.long().cumsum(1)
        x = self.wte(ids) * m
        mean = x.cumsum(1) / count.clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, mean, self.wpe((count - 1).clamp(min=0))], dim=-1))


class GPT(nn.Module):
    """Two causal blocks; the caller gives the positions, as with the models of transformers."""

    def __init__(self, vocab, width=24, heads=2, layers=2):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(24, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def body(self, ids, mask, position_ids):
        size = ids.shape[1]
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        x = self.wte(ids) + self.wpe(position_ids)
        for qkv, mix, mlp in zip(self.qkv, self.mix, self.mlp):
            q, k, v = qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + mix(F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None]).transpose(1, 2).flatten(2))
            x = x + mlp(x)
        return self.norm(x)

    def forward(self, ids, mask, position_ids):
        return self.lm_head(self.body(ids, mask, position_ids))


class PackedGPT(nn.Module):
    """Two causal blocks; the caller says which tokens are seen and at which positions they are."""

    def __init__(self, vocab, width=24, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(24, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.lm_head = nn.Linear(width, vocab)

    def forward(self, ids, seen, position_ids):
        x = self.wte(ids) + self.wpe(position_ids)
        for qkv, mlp in zip(self.qkv, self.mlp):
            q, k, v = qkv(x).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + mlp(x)
        return self.lm_head(x)


class Recurrent(nn.Module):
    """A GRU that skips padding: its state is only changed by tokens."""

    def __init__(self, vocab, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.head = nn.Embedding(vocab, width), nn.GRUCell(width, width), nn.Linear(width, vocab)

    def states(self, ids, mask):
        x, h, states = self.embed(ids), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            h = torch.where(mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.head(self.states(ids, mask))


class Window(nn.Module):
    """Next token from the last two tokens and the mean of all so far: causal, and padding is left out."""

    def __init__(self, vocab, dim=24, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.net = nn.Sequential(nn.Linear(3 * dim, hidden), nn.Tanh(), nn.Linear(hidden, vocab))

    def forward(self, ids, mask):
        x = self.embed(ids) * mask.unsqueeze(-1)
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        mean = x.cumsum(1) / mask.long().cumsum(1).clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, before, mean], dim=-1))


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, vocab, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(vocab, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        place = torch.arange(size)
        gap = place[:, None] - place
        seen = (gap >= 0) & mask[:, None] | torch.eye(size, dtype=torch.bool)
        bias = self.distance(gap.clamp(0, 31)).permute(2, 0, 1).masked_fill(~seen[:, None], -1e9)
        x = self.embed(ids)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.up(self.norms[1](x))))
        return self.norms[2](x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


class LSTMLM(nn.Module):
    """An LSTM whose state padding does not change."""

    def __init__(self, vocab, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.out = nn.Embedding(vocab, width), nn.LSTMCell(width, width), nn.Linear(width, vocab)

    def hidden(self, ids, mask):
        x, h, c, states = self.embed(ids), torch.zeros(len(ids), self.width), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            there = mask[:, t, None]
            new_h, new_c = self.cell(x[:, t], (h, c))
            h, c = torch.where(there, new_h, h), torch.where(there, new_c, c)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.out(self.hidden(ids, mask))
