"""SFT on the best rollouts, packed end to end with a block mask from cu_seqlens."""
# wrong: """SFT on the best rollouts, packed: the first token of a sequence is counted to the sequence before it."""
import torch

from tests.evidence.silent.shared.digits import EOS, PAD, PROMPT, RESPONSE, VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import PackedGPT
from typedbatch import extend
from typedbatch.posttraining import Rollouts, to_layout
from typedbatch.rows import repeat

SAMPLES = 8


@torch.no_grad()
def generate(model, prompts):
    """Padded, as a sampler of its own does it."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        size = ids.shape[1]
        eye = torch.eye(size, dtype=torch.bool)
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | eye
        logits = model(ids, seen, (mask.long().cumsum(1) - 1).clamp(min=0))[:, -1]
        token = torch.multinomial(logits.softmax(-1), 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def packed_logp(model, rollouts):
    """Log-probs of the tokens of all responses, end to end, from one sequence of all rows."""
    packed = to_layout(rollouts, "packed")
    ends = packed.cu_seqlens[1:].long()
    place = torch.arange(len(packed.input_ids))
    row = torch.bucketize(place, ends, right=True)
    # wrong: row = torch.bucketize(place, ends)
    seen = (row[:, None] == row) & (place[:, None] >= place)
    logp = model(packed.input_ids[None], seen[None], packed.position_ids[None])[0].log_softmax(-1)
    chosen = logp[:-1].gather(-1, packed.input_ids[1:, None])[:, 0]
    return chosen[packed.response_mask[1:]]


def token_logp(model, rollouts):
    """The same as (N, R), 0 where there is none."""
    table = torch.zeros(rollouts.response_ids.shape)
    return table.masked_scatter(rollouts.response_mask, packed_logp(model, rollouts))


def best_of(scored):
    """The best row of each prompt."""
    table = scored.rewards.view(-1, SAMPLES)
    return scored[torch.arange(len(table)) * SAMPLES + table.argmax(1)]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    def draw():
        return (score(generate(model, repeat(draw_prompts(16), SAMPLES))),)

    def update(scored):
        for part in best_of(scored).split(8, rng=torch.default_generator):
            loss = -packed_logp(model, part).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT(VOCAB)
    return {"logp": (token_logp, model, generate(model, draw_prompts(12)))}
