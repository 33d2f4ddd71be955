"""GRPO that computes old log-probs in batches sorted by length, and puts them back in the order of the rows."""
# wrong: """Old log-probs are computed in batches sorted by length, and are not put back in the order of the rows."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

PAD, EOS, DIGITS, VOCAB = 0, 1, 10, 12  # digits are 2 .. 11
P, R = 4, 7


@dataclass
class Config:
    prompts: int = 8
    group: int = 6
    width: int = 24
    lr: float = 3e-3
    clip: float = 0.2
    epochs: int = 2
    minibatch: int = 16
    rows_per_forward: int = 12


class GPT(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, width), nn.Embedding(P + R, width)
        self.ln, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids, mask):
        n, t = ids.shape
        place = (mask.long().cumsum(1) - 1).clamp(min=0)
        seen = torch.ones(t, t, dtype=torch.bool).tril() & mask[:, None] | torch.eye(t, dtype=torch.bool)
        x = self.tok(ids) + self.pos(place)
        q, k, v = (z.view(n, t, 2, -1).transpose(1, 2) for z in self.qkv(self.ln(x)).chunk(3, -1))
        x = x + self.out(scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None]).transpose(1, 2).reshape(n, t, -1))
        return self.head(x + self.mlp(x))


def token_logp(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    logits = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return logits.log_softmax(-1).gather(-1, batch.response_ids[..., None]).squeeze(-1) * batch.response_mask


@torch.no_grad()
def compute_old_logp(model, batch, rows_per_forward=12):
    """Long rows go with long rows, as little padding as possible is computed."""
    order = batch.response_mask.sum(1).argsort(descending=True, stable=True)
    parts = [token_logp(model, batch[rows]) for rows in order.split(rows_per_forward)]
    return torch.cat(parts)[order.argsort()]
    # wrong: return torch.cat(parts)


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(R):
        token = torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    start = prompts.prompt_ids.shape[1]
    there = mask[:, start:]
    return extend(prompts, Rollouts, response_ids=ids[:, start:], response_mask=there, loss_mask=there, truncated=alive)


def reward(batch):
    """The share of the response's tokens that are digits of the prompt, and a bonus where it ends."""
    there = (batch.response_ids[:, :, None] == batch.prompt_ids[:, None]) & batch.prompt_mask[:, None]
    hits = (there.any(2) & batch.response_mask & (batch.response_ids > EOS)).sum(1)
    ended = (batch.response_ids == EOS).any(1).float()
    return extend(batch, Scored, rewards=hits / batch.response_mask.sum(1) + 0.5 * ended)


class GRPOTrainer:
    def __init__(self, cfg: Config) -> None:
        self.cfg, self.model, self.step = cfg, GPT(cfg.width), 0
        self.optimizer = torch.optim.Adam(self.model.parameters(), cfg.lr)

    def draw(self):
        length = torch.randint(1, P + 1, (self.cfg.prompts, 1))
        mask = torch.arange(P) >= P - length
        ids = torch.randint(2, VOCAB, (self.cfg.prompts, P)).where(mask, PAD)
        uid = objects([f"{self.step}/{i}" for i in range(self.cfg.prompts)])
        self.step += 1
        prompts = repeat(Prompts(prompt_ids=ids, prompt_mask=mask, uid=uid), self.cfg.group)
        return (reward(generate(self.model, prompts)),)

    def update(self, scored: Scored) -> dict[str, float]:
        by = groups(scored, "uid")
        advantages = (scored.rewards - by.mean(scored.rewards)) / (by.std(scored.rewards) + 1e-4)
        old = compute_old_logp(self.model, scored, self.cfg.rows_per_forward)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        losses = []
        for _ in range(self.cfg.epochs):
            for mini in ready.split(self.cfg.minibatch):
                ratio = (token_logp(self.model, mini) - mini.old_logp).exp()
                clipped = ratio.clamp(1 - self.cfg.clip, 1 + self.cfg.clip)
                surrogate = torch.min(ratio * mini.advantages, clipped * mini.advantages)
                loss = -(surrogate * mini.loss_mask).sum() / mini.loss_mask.sum()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                losses.append(loss.item())
        return {"loss": sum(losses) / len(losses), "reward": scored.rewards.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(Config())
    return trainer.update, trainer.draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(Config())
    (scored,) = trainer.draw()
    rollouts = Rollouts(**{k: scored[k] for k in ("prompt_ids", "prompt_mask", "uid", "response_ids", "response_mask", "loss_mask")})
    prompts = Prompts(prompt_ids=scored.prompt_ids, prompt_mask=scored.prompt_mask, uid=scored.uid)
    return {
        "logp": (compute_old_logp, trainer.model, rollouts),
        "reward": (reward, rollouts),
        "sample": (lambda p: generate(trainer.model, p), prompts),
    }
