"""PPO-clip over group advantages, four epochs over the rollouts of one policy."""
# wrong: """GRPO: old log-probs are computed again in each epoch, so the ratio compares with the last epoch, not with the sampler."""

from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 4
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, EPOCHS, CLIP = 8, 4, 0.2


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


def logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def score(rollouts):
    """Highest for a response with all tokens equal to the greatest digit of the prompt."""
    greatest = rollouts.prompt_ids.where(rollouts.prompt_mask, -1).max(1).values
    hits = (rollouts.response_ids == greatest[:, None]) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=hits.sum(1) / RESPONSE)


def advantages_of(batch):
    by_prompt = groups(batch, "uid", size=GROUP)
    centred = batch.rewards - by_prompt.mean(batch.rewards)
    return (centred / (by_prompt.std(batch.rewards) + 1e-4))[:, None] * batch.loss_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def with_old(scored):
        with torch.no_grad():
            return extend(scored, Ready, old_logp=logp(model, scored), advantages=advantages_of(scored))

    def update(scored):
        ready = with_old(scored)
        # wrong: without this line
        for _ in range(EPOCHS):
            # wrong, too: ready = with_old(scored)
            ratio = (logp(model, ready) - ready.old_logp).exp()
            gain = torch.min(ratio * ready.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * ready.advantages)
            loss = -gain[ready.loss_mask].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        return (score(sample(model, repeat(draw_prompts(8), GROUP))),)

    return update, draw
