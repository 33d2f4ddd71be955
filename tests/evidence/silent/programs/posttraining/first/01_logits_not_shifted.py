"""GRPO on a copying task: log-probs of the responses, group advantages, clipped loss."""
# wrong: """GRPO: the logits at a token are taken as the prediction of that token itself, not of the one after it."""

# LlamaFactory issue 1447 has log-probs without a shift in a script of its own, many forks of TRL had it for completions
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 6, 4, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, CLIP = 4, 0.2


class CausalLM(nn.Module):
    """A layer of attention that ignores padding, also in positions."""

    def __init__(self, width=16):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, width), nn.Embedding(16, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.lm_head = nn.Linear(width, VOCAB)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        x = self.token(ids) + self.place((mask.long().cumsum(1) - 1).clamp(min=0))
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))
        return x + self.mlp(x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there, truncated=alive)


def score(rollouts):
    """The share of tokens of the response that occur in the prompt."""
    known = (rollouts.response_ids[:, :, None] == rollouts.prompt_ids[:, None]) & rollouts.prompt_mask[:, None]
    known = known.any(-1) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=known.sum(1) / rollouts.response_mask.sum(1))


def response_logp(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    start = batch.prompt_ids.shape[1]
    logits = logits[:, start - 1 : -1]
    # wrong: logits = logits[:, start:]
    return logits.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(8), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = response_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        for _ in range(2):
            for part in ready.split(16, rng=torch.default_generator):
                ratio = (response_logp(model, part) - part.old_logp).exp()
                loss = -torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
                loss = (loss * part.loss_mask).sum() / part.loss_mask.sum()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    return {"logp": (response_logp, model, sample(model, repeat(draw_prompts(4), GROUP)))}
