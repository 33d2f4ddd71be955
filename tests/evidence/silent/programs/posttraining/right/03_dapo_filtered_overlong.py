"""DAPO: groups without variance are dropped, truncated rows stay in the group's mean and leave the loss, clip-higher."""

# arXiv:2503.14476: dynamic sampling, overlong filtering, token mean over what is left
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import cat, extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, WANTED, TRIES, CLIP_LOW, CLIP_HIGH = 6, 8, 4, 0.2, 0.28


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


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask, positions(mask))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def verify(rollouts):
    """1 if the response begins with the last digit of the prompt, else 0."""
    return extend(rollouts, Scored, rewards=(rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float())


def informative(scored):
    return scored[groups(scored, "uid", size=GROUP).std(scored.rewards) > 0]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def draw():
        """Samples until there are enough groups to learn from, or it has tried often enough."""
        kept, rewards = [], []
        for _ in range(TRIES):
            scored = verify(generate(model, repeat(draw_prompts(12), GROUP)))
            rewards.append(scored.rewards.mean().item())
            kept.append(informative(scored))
            if sum(map(len, kept)) >= WANTED * GROUP:
                break
        return cat(kept)[: WANTED * GROUP], rewards[0]

    def update(scored, mean_reward):
        if len(scored) == 0:
            return mean_reward
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-6)
        scored.loss_mask = scored.loss_mask & ~scored.truncated[:, None]
        with torch.no_grad():
            old_logp = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(24, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return mean_reward

    return update, draw
