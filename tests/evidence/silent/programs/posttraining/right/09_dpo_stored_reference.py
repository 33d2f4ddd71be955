"""Iterative DPO: both sides in one forward pass, the reference's log-probs stored before, smoothed labels, an SFT term."""

# conservative DPO (eric-mitchell.ai/cdpo.pdf), and the SFT term of "Iterative reasoning preference optimization"
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Pairs, Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
SAMPLES, BETA, SMOOTHING, SFT = 6, 0.2, 0.1, 0.05


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


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    everything = torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1)
    logits = model(*everything, positions(everything[1]))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def both_sides(model, pairs):
    """The chosen rows on top of the rejected ones: a forward pass of twice the rows."""
    logp = sequence_logp(
        model,
        torch.cat([pairs.prompt_ids, pairs.prompt_ids]),
        torch.cat([pairs.prompt_mask, pairs.prompt_mask]),
        torch.cat([pairs.chosen_ids, pairs.rejected_ids]),
        torch.cat([pairs.chosen_mask, pairs.rejected_mask]),
    )
    return logp[: len(pairs)], logp[len(pairs) :]


@torch.no_grad()
def make_pairs(model, scored):
    """The best and the worst of each prompt, without prompts whose samples are all alike."""
    table = scored.rewards.view(-1, SAMPLES)
    start = torch.arange(0, len(scored), SAMPLES)
    differ = table.amax(1) > table.amin(1)
    best, worst = scored[(start + table.argmax(1))[differ]], scored[(start + table.argmin(1))[differ]]
    pairs = Pairs(
        prompt_ids=best.prompt_ids,
        prompt_mask=best.prompt_mask,
        chosen_ids=best.response_ids,
        chosen_mask=best.response_mask,
        rejected_ids=worst.response_ids,
        rejected_mask=worst.response_mask,
    )
    pairs.ref_chosen_logp, pairs.ref_rejected_logp = both_sides(model, pairs)  # the model of this iteration
    return pairs


def dpo_loss(model, pairs):
    chosen, rejected = both_sides(model, pairs)
    margin = BETA * ((chosen - pairs.ref_chosen_logp) - (rejected - pairs.ref_rejected_logp))
    losses = -(1 - SMOOTHING) * F.logsigmoid(margin) - SMOOTHING * F.logsigmoid(-margin)
    return losses.mean() - SFT * (chosen / pairs.chosen_mask.sum(1)).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def draw():
        scored = score(generate(model, repeat(draw_prompts(16), SAMPLES)))
        return make_pairs(model, scored), scored.rewards.mean().item()

    def update(pairs, mean_reward):
        for _ in range(2):
            for part in pairs.split(8, rng=torch.default_generator):
                optimizer.zero_grad()
                dpo_loss(model, part).backward()
                optimizer.step()
        return mean_reward

    return update, draw
