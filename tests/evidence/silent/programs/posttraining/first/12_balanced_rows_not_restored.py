"""GRPO with old log-probs computed in parts that are balanced by tokens, and put back in the order of rows."""
# wrong: """GRPO: old log-probs are computed in parts that are balanced by tokens, and never put back in the order of rows."""

# verl issue 2185: with use_dynamic_bsz the rows of the log-probs came back in another order
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import Batch, extend, objects
# wrong: from typedbatch import Batch, cat, extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import balance, groups, repeat, restore
# wrong: from typedbatch.rows import balance, groups, repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
PAD, EOS, VOCAB = 6, 7, 8
SAMPLES, WORKERS = 6, 3


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


def make_prompts(rng: np.random.Generator, n: int) -> Prompts:
    """Prompts of 1 to MAX_PROMPT letters, padded on the left."""
    rows = [rng.integers(0, LETTERS, size=rng.integers(1, MAX_PROMPT + 1)).tolist() for _ in range(n)]
    ids = torch.tensor([[PAD] * (MAX_PROMPT - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (MAX_PROMPT - len(r)) + [True] * len(r) for r in rows])
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{rng.integers(1 << 40)}" for _ in rows))


@torch.no_grad()
def generate(policy, prompts: Prompts, temperature: float = 1.0) -> Rollouts:
    """Sample until EOS or MAX_NEW tokens, and keep the sampler's log-probs."""
    policy.eval()
    n = len(prompts)
    input_ids, attention_mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(n, dtype=torch.bool)
    logps = []
    for _ in range(MAX_NEW):
        dist = torch.distributions.Categorical(logits=policy(input_ids, attention_mask)[:, -1] / temperature)
        tok = dist.sample()
        logps.append(dist.log_prob(tok) * unfinished)
        tok = torch.where(unfinished, tok, torch.full_like(tok, PAD))
        input_ids = torch.cat([input_ids, tok.unsqueeze(1)], dim=1)
        attention_mask = torch.cat([attention_mask, unfinished.unsqueeze(1)], dim=1)
        unfinished = unfinished & tok.ne(EOS)
    policy.train()
    p = prompts.prompt_ids.shape[1]
    response_mask = attention_mask[:, p:]
    return extend(
        prompts,
        Rollouts,
        response_ids=input_ids[:, p:],
        response_mask=response_mask,
        loss_mask=response_mask.clone(),
        rollout_logp=torch.stack(logps, dim=1),
        response_length=response_mask.sum(1),
        truncated=unfinished,
    )


def get_per_token_logps(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, attention_mask)[:, :-1]  # the last one predicts a token that is not there
    logits = logits[:, -batch.response_ids.size(1) :]
    logps = torch.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=2, index=batch.response_ids.unsqueeze(2)).squeeze(2) * batch.response_mask


@torch.no_grad()
def old_log_probs(model, data):
    """In parts of about as many tokens, one for each worker."""
    rows = balance(data.prompt_mask.sum(1) + data.response_mask.sum(1), WORKERS)
    parts = [Batch(old_logp=get_per_token_logps(model, data[i])) for i in rows]
    return restore(parts, rows).old_logp
    # wrong: return cat(parts).old_logp


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        rollouts = generate(model, repeat(make_prompts(rng, 8), SAMPLES))
        low = (rollouts.response_ids < 2) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=low.sum(1) / rollouts.response_length),)

    def update(scored):
        g = groups(scored, "uid", size=SAMPLES)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        ready = extend(scored, Ready, old_logp=old_log_probs(model, scored), advantages=adv[:, None] * scored.loss_mask)
        for mini in ready.split(24, rng=torch.default_generator):
            ratio = torch.exp(get_per_token_logps(model, mini) - mini.old_logp)
            pg = torch.max(-mini.advantages * ratio, -mini.advantages * ratio.clamp(0.8, 1.2))
            opt.zero_grad()
            ((pg * mini.loss_mask).sum() / mini.loss_mask.sum()).backward()
            opt.step()
        return scored.rewards.mean().item()

    return update, draw
