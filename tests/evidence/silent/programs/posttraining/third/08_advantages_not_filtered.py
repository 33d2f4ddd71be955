"""DAPO: groups without variance are dropped, then there are a fixed number of rows per step, with asymmetric clipping."""
# wrong: """DAPO: groups without variance are dropped from the rollouts but not from the advantages: rows get those of other rows."""

# dynamic sampling with tensors beside the batch; verl's and open-instruct's filters index every tensor one by one
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
PROMPTS, GROUP, CLIP_LOW, CLIP_HIGH = 24, 4, 0.2, 0.28


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
    """Right or wrong: whether the first token is the last digit of the prompt, or one more."""
    last = rollouts.prompt_ids[:, -1]
    first = rollouts.response_ids[:, 0]
    return extend(rollouts, Scored, rewards=((first == last) | (first == last + 1)).float())


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def normalized(scored):
    """A number per row, and whether its group has any variance."""
    by_prompt = groups(scored, "uid", size=GROUP)
    std = by_prompt.std(scored.rewards)
    return (scored.rewards - by_prompt.mean(scored.rewards)) / (std + 1e-6), std > 0


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(PROMPTS), GROUP))),)

    def prepare(scored):
        advantages, informative = normalized(scored)
        kept = scored[informative]
        advantages = advantages[informative]
        # wrong: advantages = advantages[: len(kept)]
        with torch.no_grad():
            old = token_logp(model, kept)
        return extend(kept, Ready, old_logp=old, advantages=advantages[:, None] * kept.loss_mask)

    def policy_loss(part):
        ratio = (token_logp(model, part) - part.old_logp).exp()
        clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        return -torch.min(ratio * part.advantages, clipped * part.advantages)[part.loss_mask].sum()

    def update(scored):
        ready, losses = prepare(scored), []
        for part in ready.split(2 * GROUP, rng=torch.default_generator):
            loss = policy_loss(part) / part.loss_mask.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"kept": len(ready), "loss": sum(losses) / max(1, len(losses))}

    return update, draw
