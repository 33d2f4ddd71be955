"""Multi-turn RLOO with a tool: the loss is summed over the model's tokens and divided by their number in the batch."""
# wrong: """Multi-turn RLOO: the loss is summed over the model's tokens and divided by the number of all, those of tools included."""

# slime PR 365: num_tokens of the per-token loss counted the tokens of tools
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, CALL, ANSWER = 6, 3, 2, 4
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, MICRO = 4, 8


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


def tool(call):
    """A search that gives back the call, the last token first."""
    return call.flip(1)


@torch.no_grad()
def rollout(model, prompts):
    """The model writes a call of two tokens, the tool appends its two tokens, and the model answers until EOS."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    start, alive, counted = ids.shape[1], torch.ones(len(prompts), dtype=torch.bool), []

    def append(token, counts):
        nonlocal ids, mask
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        counted.append(alive & counts)

    for _ in range(CALL):
        append(torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0], True)
    for token in tool(ids[:, -CALL:]).unbind(1):
        append(token, False)
    for _ in range(ANSWER):
        token = torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(alive, PAD)
        append(token, True)
        alive = alive & (token != EOS)
    return extend(
        prompts, Rollouts, response_ids=ids[:, start:], response_mask=mask[:, start:], loss_mask=torch.stack(counted, 1)
    )


def logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def judge(rollouts):
    """Return the number of tokens of the answer that are in the prompt."""
    answer = rollouts.response_ids[:, CALL + 2 :]
    found = (answer[:, :, None] == rollouts.prompt_ids[:, None]) & rollouts.prompt_mask[:, None]
    found = found.any(2) & rollouts.loss_mask[:, CALL + 2 :]
    return extend(rollouts, Scored, rewards=found.sum(1).float())


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    def update(scored):
        baseline = groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        with torch.no_grad():
            old = logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=(scored.rewards - baseline)[:, None] * scored.loss_mask)
        num_tokens = ready.loss_mask.sum()
        # wrong: num_tokens = ready.response_mask.sum()
        optimizer.zero_grad()
        for micro in ready.split(MICRO, shuffle=False):
            per_token = -(logp(model, micro) - micro.old_logp).exp() * micro.advantages
            ((per_token * micro.loss_mask).sum() / num_tokens).backward()
        optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        return (judge(rollout(model, repeat(draw_prompts(8), GROUP))),)

    return update, draw
