"""RLOO on packed sequences with a block mask; one update per rollout, so the old log-probs are the new ones, detached."""

from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored, to_layout
from typedbatch.rows import bins, groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, BIN = 4, 96


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


def packed_loss(model, ready):
    """Summed over the tokens of one pack."""
    packed = to_layout(ready, "packed")
    lengths = packed.cu_seqlens.diff().long()
    row = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    seen = (row[:, None] == row).tril()
    logits = model(packed.input_ids[None], seen[None], packed.position_ids[None])[0]
    logp = logits[:-1].log_softmax(-1).gather(-1, packed.input_ids[1:, None])[:, 0]
    ratio = (logp - logp.detach()).exp()  # 1, with the gradient of logp
    return -(ratio * packed.advantages[1:])[packed.loss_mask[1:]].sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(24), GROUP))),)

    def update(scored):
        advantages = scored.rewards - groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        nothing = torch.zeros(scored.response_ids.shape)  # the loss does not read it
        ready = extend(scored, Ready, old_logp=nothing, advantages=advantages[:, None] * scored.loss_mask)
        tokens = ready.loss_mask.sum()
        optimizer.zero_grad()
        for rows in bins(ready.prompt_mask.sum(1) + ready.response_mask.sum(1), BIN):
            (packed_loss(model, ready[rows]) / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
