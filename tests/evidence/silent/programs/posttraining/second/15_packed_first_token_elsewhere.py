"""SFT on the best rollouts, packed end to end with a block mask from cu_seqlens."""
# wrong: """SFT on the best rollouts, packed: the first token of a sequence is counted to the sequence before it."""

from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored, to_layout
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
SAMPLES = 8


class PackedGPT(nn.Module):
    """Two causal blocks; the caller says which tokens are seen and at which positions they are."""

    def __init__(self, width=24, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, width), nn.Embedding(24, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.lm_head = nn.Linear(width, VOCAB)

    def forward(self, ids, seen, position_ids):
        x = self.wte(ids) + self.wpe(position_ids)
        for qkv, mlp in zip(self.qkv, self.mlp):
            q, k, v = qkv(x).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + mlp(x)
        return self.lm_head(x)


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    """Padded, as a sampler of its own does it."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        size = ids.shape[1]
        eye = torch.eye(size, dtype=torch.bool)
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | eye
        logits = model(ids, seen, (mask.long().cumsum(1) - 1).clamp(min=0))[:, -1]
        token = torch.multinomial(logits.softmax(-1), 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """The share of tokens that are the first digit of the prompt, and a bonus for an end."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = ((rollouts.response_ids == first) & rollouts.response_mask).sum(1)
    return extend(rollouts, Scored, rewards=hits / rollouts.response_mask.sum(1) + 0.2 * ~rollouts.truncated)


def packed_logp(model, rollouts):
    """Log-probs of the tokens of all responses, end to end, from one sequence of all rows."""
    packed = to_layout(rollouts, "packed")
    ends = packed.cu_seqlens[1:].long()
    place = torch.arange(len(packed.input_ids))
    row = torch.bucketize(place, ends, right=True)
    # wrong: row = torch.bucketize(place, ends)
    seen = (row[:, None] == row) & (place[:, None] >= place)
    logp = model(packed.input_ids[None], seen[None], packed.position_ids[None])[0].log_softmax(-1)
    chosen = logp[:-1].gather(-1, packed.input_ids[1:, None])[:, 0]
    return chosen[packed.response_mask[1:]]


def token_logp(model, rollouts):
    """The same as (N, R), 0 where there is none."""
    table = torch.zeros(rollouts.response_ids.shape)
    return table.masked_scatter(rollouts.response_mask, packed_logp(model, rollouts))


def best_of(scored):
    """The best row of each prompt."""
    table = scored.rewards.view(-1, SAMPLES)
    return scored[torch.arange(len(table)) * SAMPLES + table.argmax(1)]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    def draw():
        return (score(generate(model, repeat(draw_prompts(16), SAMPLES))),)

    def update(scored):
        for part in best_of(scored).split(8, rng=torch.default_generator):
            loss = -packed_logp(model, part).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT()
    return {"logp": (token_logp, model, generate(model, draw_prompts(12)))}
