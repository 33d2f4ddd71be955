"""Online DPO: the best and the worst of the samples of each prompt make a pair."""
# wrong: """Online DPO: the place within a group is taken for a row of the batch, so a pair has responses to other prompts."""

import copy
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Pairs, Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 6, 3, 4
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
SAMPLES, BETA = 4, 0.1


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
    """Return the number of tokens that are the first digit of the prompt."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = (rollouts.response_ids == first) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=hits.sum(1).float() - 0.1 * rollouts.response_mask.sum(1))


def make_pairs(scored):
    table = scored.rewards.view(-1, SAMPLES)
    first = torch.arange(len(table)) * SAMPLES
    # wrong: first = torch.arange(len(table))
    chosen, rejected = scored[first + table.argmax(1)], scored[first + table.argmin(1)]
    prompts = scored[::SAMPLES]
    return Pairs(
        prompt_ids=prompts.prompt_ids,
        prompt_mask=prompts.prompt_mask,
        chosen_ids=chosen.response_ids,
        chosen_mask=chosen.response_mask,
        rejected_ids=rejected.response_ids,
        rejected_mask=rejected.response_mask,
    )


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def margins(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sequence_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    return chosen - sequence_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(16), SAMPLES))),)

    def update(scored):
        pairs = make_pairs(scored)
        for part in pairs.split(8, rng=torch.default_generator):
            loss = -F.logsigmoid(BETA * (margins(model, part) - margins(reference, part))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    return {"pairs": (make_pairs, score(sample(CausalLM(), repeat(draw_prompts(8), SAMPLES))))}
