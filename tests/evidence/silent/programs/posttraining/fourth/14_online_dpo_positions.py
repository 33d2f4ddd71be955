"""Online DPO: two samples for each left-padded prompt, with the same positions in sampling and in training."""
# wrong: """Log-probs are computed with positions that count left padding, while the sampler's start at the first token."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from typedbatch import extend, objects
from typedbatch.posttraining import Pairs, Prompts, Rollouts, Scored
from typedbatch.rows import repeat

VOCAB, PAD, EOS = 16, 0, 1
LEFT, RIGHT = 6, 6


class CausalLM(nn.Module):
    """GPT-2 in small: learned positions, ``position_ids`` are 0, 1, 2 ... unless given."""

    def __init__(self, n_embd=32, n_head=2, n_layer=1, n_positions=32):
        super().__init__()
        self.wte, self.wpe, self.n_head = nn.Embedding(VOCAB, n_embd), nn.Embedding(n_positions, n_embd), n_head
        self.attn = nn.ModuleList(nn.MultiheadAttention(n_embd, n_head, batch_first=True) for _ in range(n_layer))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(n_embd), nn.Linear(n_embd, 64), nn.GELU(), nn.Linear(64, n_embd))
            for _ in range(n_layer)
        )
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, VOCAB, bias=False)

    def forward(self, input_ids, attention_mask, position_ids=None):
        n, t = input_ids.shape
        if position_ids is None:
            position_ids = torch.arange(t).expand(n, t)
        x = self.wte(input_ids) + self.wpe(position_ids)
        allowed = torch.ones(t, t, dtype=torch.bool).tril() & attention_mask[:, None].bool()
        blocked = ~(allowed | torch.eye(t, dtype=torch.bool)).repeat_interleave(self.n_head, 0)
        for attn, mlp in zip(self.attn, self.mlp):
            x = x + attn(x, x, x, attn_mask=blocked, need_weights=False)[0]
            x = x + mlp(x)
        return self.lm_head(self.ln_f(x))


def positions(attention_mask):
    return (attention_mask.long().cumsum(1) - 1).clamp(min=0)


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(RIGHT):
        logits = model(ids, mask, position_ids=positions(mask))[:, -1]
        token = torch.multinomial(F.softmax(logits, -1), 1)[:, 0].where(unfinished, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, unfinished[:, None]], 1)
        unfinished = unfinished & (token != EOS)
    start = prompts.prompt_ids.shape[1]
    completion_mask = mask[:, start:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, start:], response_mask=completion_mask, loss_mask=completion_mask,
        truncated=unfinished,
    )


def per_token_logps(model, prompt_ids, prompt_mask, ids, mask):
    input_ids, attention_mask = torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1)
    logits = model(input_ids, attention_mask, position_ids=positions(attention_mask))
    # wrong: logits = model(input_ids, attention_mask)
    logps = logits[:, prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
    return logps.gather(-1, ids.unsqueeze(-1)).squeeze(-1) * mask


def rollout_logps(model, rollouts):
    return per_token_logps(
        model, rollouts.prompt_ids, rollouts.prompt_mask, rollouts.response_ids, rollouts.response_mask
    )


def judge(rollouts):
    """Tokens that the prompt has as well, each once, and no end is bad."""
    one_hot = F.one_hot(rollouts.response_ids, VOCAB) * rollouts.response_mask[..., None]
    asked = (F.one_hot(rollouts.prompt_ids, VOCAB) * rollouts.prompt_mask[..., None]).amax(1)
    asked[:, :2] = 0
    found = (one_hot.amax(1) * asked).sum(1) - 0.2 * one_hot[..., 2:].sum((1, 2))
    return extend(rollouts, Scored, rewards=found - rollouts.truncated.float())


def make_pairs(scored):
    """The better and the worse of two samples that stand next to each other."""
    first, second = scored[0::2], scored[1::2]
    better = (first.rewards >= second.rewards)[:, None]
    return Pairs(
        prompt_ids=first.prompt_ids, prompt_mask=first.prompt_mask,
        chosen_ids=first.response_ids.where(better, second.response_ids),
        chosen_mask=first.response_mask.where(better, second.response_mask),
        rejected_ids=second.response_ids.where(better, first.response_ids),
        rejected_mask=second.response_mask.where(better, first.response_mask),
    )


def build(seed):
    torch.manual_seed(seed)
    model = CausalLM()
    for position in (model.wpe.weight, model.wte.weight):
        nn.init.normal_(position, std=0.5)
    return model


def some_prompts(n=14):
    mask = torch.arange(LEFT) >= torch.randint(0, LEFT - 1, (n, 1))
    return Prompts(prompt_ids=torch.randint(2, VOCAB, (n, LEFT)) * mask, prompt_mask=mask, uid=objects(range(n)))


def setup(seed: int = 0):
    model = build(seed)
    ref_model = copy.deepcopy(model).requires_grad_(False)
    optimizer, beta = torch.optim.AdamW(model.parameters(), lr=1e-3), 0.1

    def draw():
        return (make_pairs(judge(generate(model, repeat(some_prompts(), 2)))),)

    def logratio(pairs, side):
        inputs = pairs.prompt_ids, pairs.prompt_mask, getattr(pairs, f"{side}_ids"), getattr(pairs, f"{side}_mask")
        with torch.no_grad():
            reference = per_token_logps(ref_model, *inputs).sum(1)
        return per_token_logps(model, *inputs).sum(1) - reference

    def update(pairs):
        margin = beta * (logratio(pairs, "chosen") - logratio(pairs, "rejected"))
        loss = -F.logsigmoid(margin).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item(), "margin": margin.mean().item(), "accuracy": (margin > 0).float().mean().item()}

    return update, draw


def stages(seed: int = 0):
    model = build(seed)
    prompts = repeat(some_prompts(), 2)
    rollouts = generate(model, prompts)
    return {
        "logp": (rollout_logps, model, rollouts), "reward": (judge, rollouts),
        "sample": (lambda p: generate(model, p), prompts), "pairs": (make_pairs, judge(rollouts)),
    }
