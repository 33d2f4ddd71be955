"""GRPO with rollouts sorted by length to save padding; groups are found by uid."""
# wrong: """GRPO: rollouts are sorted by length to save padding, and then every G rows in order are taken for a group."""

# miles PR 1573 (review): view(-1, n_samples) groups samples of other prompts if the rows were reordered
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat
# wrong: from typedbatch.rows import repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
PAD, EOS, VOCAB = 6, 7, 8
N_SAMPLES = 6


class Policy(nn.Module):
    """Next token from the last token, the mean of all before it and the position: a bag of words that is causal."""

    def __init__(self, d_model=16):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d_model)
        self.wpe = nn.Embedding(16, d_model)
        self.net = nn.Sequential(nn.Linear(3 * d_model, 32), nn.Tanh(), nn.Linear(32, VOCAB))

    def forward(self, ids, attention_mask):
        m = attention_mask.unsqueeze(-1).float()
        count = attention_mask.long().cumsum(1)
        x = self.wte(ids) * m
        mean = x.cumsum(1) / count.clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, mean, self.wpe((count - 1).clamp(min=0))], dim=-1))


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


def reward_fn(rollouts: Rollouts) -> Scored:
    last = rollouts.prompt_ids[:, -1:]
    same = (rollouts.response_ids == last) & rollouts.response_mask
    easy = (last[:, 0] < 3).float()  # prompts differ in difficulty
    return extend(rollouts, Scored, rewards=same.sum(1) / MAX_NEW + easy)


def normalize(batch: Scored) -> torch.Tensor:
    g = groups(batch, "uid", size=N_SAMPLES)
    # wrong: r = batch.rewards.view(-1, N_SAMPLES)
    return (batch.rewards - g.mean(batch.rewards)) / (g.std(batch.rewards) + 1e-6)
    # wrong: return ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-6)).flatten()


def train_step(policy, optimizer, batch: Scored, micro=12) -> float:
    batch = batch[batch.response_length.argsort()]
    adv = normalize(batch)
    with torch.no_grad():
        old = get_per_token_logps(policy, batch)
    ready = extend(batch, Ready, old_logp=old, advantages=adv[:, None] * batch.loss_mask)
    tokens = ready.loss_mask.sum()
    optimizer.zero_grad()
    for part in ready.split(micro, shuffle=False):
        width = int(part.response_length.max())
        mask = part.loss_mask[:, :width]
        ratio = (get_per_token_logps(policy, part) - part.old_logp)[:, :width].exp()
        (-(ratio * part.advantages[:, :width] * mask).sum() / tokens).backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    return batch.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def update(scored):
        return train_step(policy, optimizer, scored)

    def draw():
        return (reward_fn(generate(policy, repeat(make_prompts(rng, 8), N_SAMPLES))),)

    return update, draw
