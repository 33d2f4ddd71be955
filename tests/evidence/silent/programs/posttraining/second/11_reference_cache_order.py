"""IPO of stored pairs: the log-probs of the reference are computed once and are fields of the pairs."""
# wrong: """IPO: reference log-probs are cached in the order of the data, and the loader shuffles the pairs every epoch."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch.posttraining import Pairs

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
PAIRS, TAU = 48, 0.1


class GPT(nn.Module):
    """Two causal blocks; the caller gives the positions, as with the models of transformers."""

    def __init__(self, width=24, heads=2, layers=2):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = nn.Embedding(VOCAB, width), nn.Embedding(24, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, VOCAB, bias=False)

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


def positions(mask):
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    everything = torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1)
    logits = model(*everything, positions(everything[1]))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def dataset():
    """The better response repeats the first digit of the prompt, the worse one goes on at random."""
    lengths = torch.randint(1, PROMPT + 1, (PAIRS, 1))
    prompt_mask = torch.arange(PROMPT) >= PROMPT - lengths
    prompt_ids = torch.randint(DIGITS, (PAIRS, PROMPT)).where(prompt_mask, PAD)
    first = prompt_ids.gather(1, prompt_mask.long().argmax(1, keepdim=True))
    sides = {}
    for name in ("chosen", "rejected"):
        mask = torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (PAIRS, 1))
        ids = first.expand(-1, RESPONSE) if name == "chosen" else torch.randint(DIGITS, (PAIRS, RESPONSE))
        sides[f"{name}_ids"], sides[f"{name}_mask"] = ids.where(mask, PAD), mask
    return Pairs(prompt_ids=prompt_ids, prompt_mask=prompt_mask, **sides)


def both(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sequence_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    return chosen, sequence_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)


class IPO:
    def __init__(self, model, pairs, batch_size=8):
        self.model, self.batch_size = model, batch_size
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        with torch.no_grad():
            pairs.ref_chosen_logp, pairs.ref_rejected_logp = both(copy.deepcopy(model), pairs)
        self.cache = pairs.ref_chosen_logp - pairs.ref_rejected_logp

    def update(self, pairs):
        losses, start = [], 0
        for part in pairs.split(self.batch_size, rng=torch.default_generator):
            chosen, rejected = both(self.model, part)
            reference = part.ref_chosen_logp - part.ref_rejected_logp
            # wrong: reference = self.cache[start : start + len(part)]
            start += len(part)
            loss = ((chosen - rejected - reference) - 1 / (2 * TAU)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    pairs = dataset()
    trainer = IPO(GPT(), pairs)

    def draw():
        return (pairs,)

    return trainer.update, draw
