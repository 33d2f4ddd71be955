"""GRPO with accumulation: a step after every four micro-batches, and one after those that are left."""
# wrong: """GRPO: six micro-batches in steps of four, so two are never stepped and their gradients leak into the next rollout."""

# transformers and accelerate: the last, incomplete accumulation of an epoch
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
GROUP, MICRO, ACCUMULATE = 6, 8, 4


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
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class Trainer:
    def __init__(self, model, lr=0.1):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def micro_loss(self, micro):
        """Over a constant number of tokens, as in Dr. GRPO."""
        ratio = (token_logp(self.model, micro) - micro.old_logp).exp()
        gain = torch.min(ratio * micro.advantages, ratio.clamp(0.8, 1.2) * micro.advantages)
        return -(gain * micro.loss_mask).sum() / (MICRO * ACCUMULATE * RESPONSE)

    def update(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
        with torch.no_grad():
            ready = extend(scored, Ready, old_logp=token_logp(self.model, scored), advantages=advantages)
        micros = list(ready.split(MICRO, rng=torch.default_generator))
        for count, micro in enumerate(micros, 1):
            self.micro_loss(micro).backward()
            if count % ACCUMULATE == 0 or count == len(micros):
            # wrong: if count % ACCUMULATE == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer(GPT())

    def draw():
        return (score(generate(trainer.model, repeat(draw_prompts(8), GROUP))),)

    return trainer.update, draw
