"""GRPO: trainer and sampler both count positions over the tokens only, so padding on the left moves nothing."""
# wrong: """GRPO: the trainer counts positions from the left edge, padding included; the sampler counts tokens only."""

# transformers makes position_ids = arange unless they are passed; generate() makes them from the attention mask
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, EPOCHS, CLIP = 6, 2, 0.2


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
    # wrong: before = model(ids, mask, torch.arange(ids.shape[1]).expand_as(ids))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class GRPOTrainer:
    def __init__(self, model, lr=3e-3):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=lr)

    @torch.no_grad()
    def prepare(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        old_logp = token_logp(self.model, scored)
        return extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)

    def loss(self, batch):
        ratio = (token_logp(self.model, batch) - batch.old_logp).exp()
        gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
        return -gain[batch.loss_mask].mean()

    def update(self, scored):
        ready = self.prepare(scored)
        for _ in range(EPOCHS):
            for part in ready.split(32, rng=torch.default_generator):
                self.optimizer.zero_grad()
                self.loss(part).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(GPT())

    def draw():
        return (score(generate(trainer.model, repeat(draw_prompts(16), GROUP))),)

    return trainer.update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT()
    return {"logp": (token_logp, model, generate(model, repeat(draw_prompts(6), GROUP)))}
