"""SFT on the rollouts of a better model, with the token of the end as padding, too."""
# wrong: """SFT: padding is found by its id, which is also that of the end, so the model is never taught to stop."""

# tokenizer.pad_token = tokenizer.eos_token and labels[labels == pad_token_id] = -100
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
EOS = PAD = 6
VOCAB = 7


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


def filtered(rollouts: Rollouts) -> Scored:
    """Those that end at once after a letter or two."""
    rewards = (rollouts.response_length <= 3).float() * (~rollouts.truncated)
    scored = extend(rollouts, Scored, rewards=rewards)
    return scored[scored.rewards > 0]


def labels_of(batch):
    labels = torch.cat([torch.full_like(batch.prompt_ids, -100), batch.response_ids], dim=1)
    return labels.masked_fill(~torch.cat([batch.prompt_mask, batch.response_mask], dim=1), -100)
    # wrong: return labels.masked_fill(labels == PAD, -100)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    teacher, model = Policy(), Policy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def draw():
        return (filtered(generate(teacher, repeat(make_prompts(rng, 24), 2))),)

    def update(batch):
        losses = []
        for part in batch.split(8, rng=torch.default_generator, merge_last=True):
            input_ids = torch.cat([part.prompt_ids, part.response_ids], dim=1)
            attention_mask = torch.cat([part.prompt_mask, part.response_mask], dim=1)
            logits = model(input_ids, attention_mask)
            shift_logits, shift_labels = logits[:, :-1], labels_of(part)[:, 1:]
            loss = nn.functional.cross_entropy(shift_logits.reshape(-1, VOCAB), shift_labels.reshape(-1), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
