"""PPO over tokens with a critic: GAE within the tokens of a response, then clipped losses."""
# wrong: """PPO over tokens: values of padding are not zero, so GAE of the last token bootstraps from the padding after it."""

# verl PR 50, ROLL PR 447: the values were multiplied by the mask after GAE, or never
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GAMMA, LAMBDA, CLIP = 1.0, 0.95, 0.2


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


class Critic(CausalLM):
    def __init__(self):
        super().__init__()
        self.v_head = nn.Linear(16, 1)

    def forward(self, ids, mask):
        return self.v_head(self.hidden(ids, mask))[..., 0]


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


def values_of(critic, batch):
    """The value before each token of the response (N, R)."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    values = critic(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    return values[:, batch.prompt_ids.shape[1] - 1 : -1] * batch.response_mask
    # wrong: return values[:, batch.prompt_ids.shape[1] - 1 : -1]


def gae(rewards, values):
    advantages, last = torch.zeros_like(rewards), torch.zeros(len(rewards))
    after = torch.cat([values[:, 1:], torch.zeros(len(values), 1)], 1)
    deltas = rewards + GAMMA * after - values
    for t in reversed(range(rewards.shape[1])):
        last = deltas[:, t] + GAMMA * LAMBDA * last
        advantages[:, t] = last
    return advantages, advantages + values


def whiten(x, mask):
    mean = x[mask].mean()
    return (x - mean) / (x[mask].std() + 1e-8) * mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic = CausalLM(), Critic()
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=5e-3)

    def prepare(scored):
        with torch.no_grad():
            old, values = logp(actor, scored), values_of(critic, scored)
        rewards = torch.zeros_like(values)
        rewards[torch.arange(len(scored)), scored.response_mask.sum(1) - 1] = scored.rewards
        advantages, returns = gae(rewards, values)
        advantages = whiten(advantages, scored.loss_mask)
        return extend(scored, Ready, old_logp=old, values=values, advantages=advantages, returns=returns)

    def update(scored):
        ready = prepare(scored)
        for _ in range(2):
            for part in ready.split(16, rng=torch.default_generator):
                ratio = (logp(actor, part) - part.old_logp).exp()
                gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
                error = (values_of(critic, part) - part.returns).square()
                loss = (-gain + 0.5 * error)[part.loss_mask].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        rollouts = sample(actor, repeat(draw_prompts(16), 2))
        stops = ~rollouts.truncated & (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1])
        return (extend(rollouts, Scored, rewards=stops.float() + 0.1 * rollouts.response_mask.sum(1)),)

    return update, draw
