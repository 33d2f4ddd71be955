"""RLOO on packed sequences with a block mask; one update per rollout, so the old log-probs are the new ones, detached."""


import torch
from torch import nn

from tests.evidence.silent.shared.digits import EOS, PAD, PROMPT, RESPONSE, VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import PackedGPT
from typedbatch import extend
from typedbatch.posttraining import Ready, Rollouts, to_layout
from typedbatch.rows import bins, groups, repeat

GROUP, BIN = 4, 96


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


def packed_loss(model, ready):
    """Summed over the tokens of one pack."""
    packed = to_layout(ready, "packed")
    lengths = packed.cu_seqlens.diff().long()
    row = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    seen = (row[:, None] == row).tril()
    logits = model(packed.input_ids[None], seen[None], packed.position_ids[None])[0]
    logp = logits[:-1].log_softmax(-1).gather(-1, packed.input_ids[1:, None])[:, 0]
    ratio = (logp - logp.detach()).exp()  # 1, with the gradient of logp
    return -(ratio * packed.advantages[1:])[packed.loss_mask[1:]].sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(24), GROUP))),)

    def update(scored):
        advantages = scored.rewards - groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        nothing = torch.zeros(scored.response_ids.shape)  # the loss does not read it
        ready = extend(scored, Ready, old_logp=nothing, advantages=advantages[:, None] * scored.loss_mask)
        tokens = ready.loss_mask.sum()
        optimizer.zero_grad()
        for rows in bins(ready.prompt_mask.sum(1) + ready.response_mask.sum(1), BIN):
            (packed_loss(model, ready[rows]) / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
