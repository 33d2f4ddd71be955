"""PPO-clip with the log-probs of the sampler as the old ones; all log-probs in float32."""
# wrong: """PPO-clip: the trainer's log-softmax is in bfloat16, the sampler's in float32, so the ratio is noise of about a percent."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW, N = 10, 3, 5, 4
PAD, EOS, VOCAB = 10, 11, 12


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


def selective_log_softmax(logits, index):
    """Of the chosen tokens only."""
    return torch.gather(logits.log_softmax(-1), -1, index.unsqueeze(-1)).squeeze(-1)
    # wrong: logits = logits.to(torch.bfloat16)  # half the memory
    # wrong, too: return torch.gather(logits.log_softmax(-1), -1, index.unsqueeze(-1)).squeeze(-1).float()


def compute_logprobs(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    position_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, position_mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return selective_log_softmax(logits, batch.response_ids) * batch.response_mask


class PPO:
    def __init__(self, model, lr=3e-3, clip=0.2):
        self.model, self.clip = model, clip
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def update(self, scored):
        g = groups(scored, "uid", size=N)
        adv = scored.rewards - g.mean(scored.rewards)
        ready = extend(scored, Ready, old_logp=scored.rollout_logp, advantages=adv[:, None] * scored.loss_mask)
        for mini in ready.split(16, rng=torch.default_generator):
            ratio = torch.exp(compute_logprobs(self.model, mini) - mini.old_logp)
            gain = torch.min(ratio * mini.advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * mini.advantages)
            loss = -(gain * mini.loss_mask).sum() / mini.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM()

    def draw():
        rollouts = generate(model, repeat(make_prompts(rng, 12), N))
        near = 1 - (rollouts.response_ids - rollouts.prompt_ids[:, -1:]).abs() / VOCAB
        return (extend(rollouts, Scored, rewards=(near * rollouts.response_mask).sum(1) / rollouts.response_length),)

    return PPO(model).update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM()
    rollouts = generate(model, repeat(make_prompts(np.random.default_rng(seed), 6), N))
    return {"logp": (compute_logprobs, model, rollouts)}
