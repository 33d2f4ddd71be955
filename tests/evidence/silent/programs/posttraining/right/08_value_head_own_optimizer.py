"""PPO over tokens: a value head on the detached states of the policy, with an optimizer and epochs of its own."""

from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GAMMA, LAMBDA, CLIP, VALUE_CLIP = 1.0, 0.9, 0.2, 0.2


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


class ValueHead(nn.Module):
    """Reads the states of the policy and sends no gradient into them."""

    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, states):
        return self.net(states.detach())[..., 0]


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


def positions(mask):
    return (mask.long().cumsum(1) - 1).clamp(min=0)


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive, logps = torch.ones(len(prompts), dtype=torch.bool), []
    for _ in range(RESPONSE):
        logp = model(ids, mask, positions(mask))[:, -1].log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1)[:, 0].where(alive, PAD)
        logps.append(logp.gather(1, token[:, None])[:, 0] * alive)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts,
        Rollouts,
        response_ids=ids[:, PROMPT:],
        response_mask=there,
        loss_mask=there.clone(),
        rollout_logp=torch.stack(logps, 1),
        response_length=there.sum(1),
        truncated=alive,
    )


def score(rollouts):
    """The share of tokens that are the first digit of the prompt, and a bonus for an end."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = ((rollouts.response_ids == first) & rollouts.response_mask).sum(1)
    return extend(rollouts, Scored, rewards=hits / rollouts.response_mask.sum(1) + 0.2 * ~rollouts.truncated)


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask, positions(mask))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def token_values(model, head, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    with torch.no_grad():
        states = model.body(ids, mask, positions(mask))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return head(states) * batch.response_mask


def gae(scored, values):
    mask, running, columns = scored.loss_mask, torch.zeros(len(scored)), []
    for t in reversed(range(RESPONSE)):
        ends = scored.response_length == t + 1
        after = values[:, t + 1] if t + 1 < RESPONSE else torch.zeros(len(scored))
        delta = scored.rewards * ends + GAMMA * after * ~ends - values[:, t]
        running = torch.where(mask[:, t], delta + GAMMA * LAMBDA * running, 0.0)
        columns.append(running)
    return torch.stack(columns[::-1], 1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, head = GPT(), ValueHead()
    policy_optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    value_optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)

    def draw():
        return (score(generate(model, draw_prompts(64))),)

    def value_step(part):
        values = token_values(model, head, part)
        near = part.values + (values - part.values).clamp(-VALUE_CLIP, VALUE_CLIP)
        errors = torch.max((values - part.returns).square(), (near - part.returns).square())
        value_optimizer.zero_grad()
        (0.5 * errors[part.loss_mask].mean()).backward()
        value_optimizer.step()

    def policy_step(part):
        ratio = (token_logp(model, part) - part.old_logp).exp()
        gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
        policy_optimizer.zero_grad()
        (-gain[part.loss_mask].mean()).backward()
        policy_optimizer.step()

    def update(scored):
        with torch.no_grad():
            old_logp, values = token_logp(model, scored), token_values(model, head, scored)
        raw, mask = gae(scored, values), scored.loss_mask
        advantages = torch.where(mask, (raw - raw[mask].mean()) / (raw[mask].std() + 1e-8), 0.0)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages, values=values, returns=raw + values)
        for part in ready.split(32, rng=torch.default_generator):
            policy_step(part)
        for _ in range(2):
            for part in ready.split(16, rng=torch.default_generator):
                value_step(part)
        return scored.rewards.mean().item()

    return update, draw
