"""RLOO on packed sequences, with a block of the mask for each row."""
# wrong: """RLOO on packed sequences: the mask is causal over the whole pack, so a row attends to all rows in front of it."""

# packing without varlen attention contaminates: transformers' DataCollatorWithFlattening with sdpa, TRL's padding_free warnings
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tests.evidence.silent.shared.digits import EOS, PAD, PROMPT, VOCAB, draw_prompts
from typedbatch import extend
from typedbatch.posttraining import Rollouts, Scored, to_layout
from typedbatch.rows import groups, repeat

RESPONSE = 6
SAMPLES = 4


class GPT(nn.Module):
    """Two blocks of attention, which is told what is seen and where tokens are."""

    def __init__(self, width=24, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, width), nn.Embedding(16, width)
        self.attention = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.lm_head = nn.Linear(width, VOCAB)

    def forward(self, ids, position_ids, seen):
        x = self.wte(ids) + self.wpe(position_ids)
        for attention, mlp in zip(self.attention, self.mlp):
            q, k, v = attention(x).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + mlp(x)
        return self.lm_head(x)


class Weighted(Scored):
    weight: Float[Tensor, "N"]
    """How much better a response is than the others to its prompt."""


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        size = ids.shape[1]
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        logits = model(ids, (mask.long().cumsum(1) - 1).clamp(min=0), seen)[:, -1]
        token = torch.multinomial(logits.softmax(-1), 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def score(rollouts):
    """How many tokens are in the prompt, less a price for each token."""
    known = (rollouts.response_ids[:, :, None] == rollouts.prompt_ids[:, None]) & (rollouts.response_ids != PAD)[..., None]
    return extend(rollouts, Scored, rewards=known.any(-1).sum(1) - 0.5 * rollouts.response_mask.sum(1))


def block_mask(cu_seqlens):
    lengths = cu_seqlens.diff().long()
    total = int(lengths.sum())
    causal = torch.ones(total, total, dtype=torch.bool).tril()
    rows = torch.arange(len(lengths)).repeat_interleave(lengths)
    # wrong: return causal
    return causal & (rows[:, None] == rows)
    # wrong: without this line


def token_logp(model, rollouts):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    packed = to_layout(rollouts, "packed")
    logits = model(packed.input_ids[None], packed.position_ids[None], block_mask(packed.cu_seqlens)[None])[0]
    before = logits[:-1].log_softmax(-1).gather(-1, packed.input_ids[1:, None])[:, 0]
    flat = before[packed.response_mask[1:]]
    return torch.zeros(rollouts.response_ids.shape).masked_scatter(rollouts.response_mask, flat)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(12), SAMPLES))),)

    def update(scored):
        others = groups(scored, "uid", size=SAMPLES).leave_one_out(scored.rewards)
        batch = extend(scored, Weighted, weight=scored.rewards - others)
        tokens, losses = batch.loss_mask.sum(), []
        optimizer.zero_grad()
        for part in batch.split(12, shuffle=False):
            loss = -(part.weight[:, None] * token_logp(model, part) * part.loss_mask).sum() / tokens
            loss.backward()
            losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"reward": scored.rewards.mean().item(), "loss": sum(losses)}

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT()
    return {"logp": (token_logp, model, generate(model, repeat(draw_prompts(4), SAMPLES)))}
