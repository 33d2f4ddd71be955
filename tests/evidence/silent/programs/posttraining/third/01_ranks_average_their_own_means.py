"""GRPO on two ranks, whose gradients are averaged as DDP does it; the loss is the mean over the tokens of all ranks."""
# wrong: """GRPO on two ranks: each divides by its own tokens, and gradients are averaged, so ranks with few tokens weigh more."""

# transformers PR 34191 and its successors: num_items_in_batch is to be gathered across devices, then multiplied by their number
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import chunk, groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, CLIP, WORLD = 4, 0.2, 2


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(VOCAB, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)

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


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """The longer the response, the better, if it does not repeat the last digit of the prompt."""
    bad = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]).sum(1)
    return extend(rollouts, Scored, rewards=0.1 * rollouts.response_mask.sum(1) - bad)


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class Rank:
    """What one process does: the model is the same on all of them."""

    def __init__(self, model):
        self.model, self.params = model, list(model.parameters())

    def gradients(self, shard, tokens_of_all):
        ratio = (token_logp(self.model, shard) - shard.old_logp).exp()
        gain = torch.min(ratio * shard.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * shard.advantages)
        total = -(gain * shard.loss_mask).sum()
        loss = total * WORLD / tokens_of_all
        # wrong: loss = total / shard.loss_mask.sum()
        return torch.autograd.grad(loss, self.params)


def all_reduce_mean(gradients):
    return [torch.stack(parts).mean(0) for parts in zip(*gradients)]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder()
    ranks = [Rank(model) for _ in range(WORLD)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(12), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(24, rng=torch.default_generator):
            shards = chunk(part, WORLD, equal=True)
            tokens = sum(shard.loss_mask.sum() for shard in shards)
            reduced = all_reduce_mean([rank.gradients(shard, tokens) for rank, shard in zip(ranks, shards)])
            for parameter, gradient in zip(model.parameters(), reduced):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
