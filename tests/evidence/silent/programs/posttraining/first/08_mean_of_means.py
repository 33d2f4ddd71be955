"""GRPO with gradient accumulation: each micro-batch adds its sum, divided by the tokens of the whole batch."""
# wrong: """GRPO: each micro-batch takes the mean over its own tokens, so tokens of short responses weigh more."""

# verl PR 906, open-instruct PR 1161, mlx-lm PR 1413: the mean of means over micro-batches
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
PAD, EOS, VOCAB = 6, 7, 8


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


class Actor:
    def __init__(self, module, lr=5e-3, clip_ratio=0.2, grad_clip=1.0, mini_batch_size=24, micro_batch_size=6):
        self.module, self.clip_ratio, self.grad_clip = module, clip_ratio, grad_clip
        self.mini_batch_size, self.micro_batch_size = mini_batch_size, micro_batch_size
        self.optimizer = torch.optim.SGD(module.parameters(), lr=lr)

    def policy_loss(self, data):
        ratio = torch.exp(get_per_token_logps(self.module, data) - data.old_logp)
        clipped = ratio.clamp(1 - self.clip_ratio, 1 + self.clip_ratio)
        return torch.max(-data.advantages * ratio, -data.advantages * clipped)

    def update_policy(self, data):
        for mini_batch in data.split(self.mini_batch_size, rng=torch.default_generator):
            micro_batches = list(mini_batch.split(self.micro_batch_size, shuffle=False))
            total_tokens = mini_batch.loss_mask.sum()
            # wrong: without this line
            self.optimizer.zero_grad()
            for micro in micro_batches:
                losses = self.policy_loss(micro)
                loss = (losses * micro.loss_mask).sum() / total_tokens
                # wrong: loss = (losses * micro.loss_mask).sum() / micro.loss_mask.sum() / len(micro_batches)
                loss.backward()
            nn.utils.clip_grad_norm_(self.module.parameters(), self.grad_clip)
            self.optimizer.step()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor = Actor(Policy(), lr=0.5)

    def draw():
        rollouts = generate(actor.module, repeat(make_prompts(rng, 8), 6))
        rewards = (rollouts.response_ids[:, :-1] == rollouts.response_ids[:, 1:]).logical_and(rollouts.response_mask[:, 1:])
        return (extend(rollouts, Scored, rewards=rewards.sum(1).float()),)

    def update(scored):
        g = groups(scored, "uid", size=6)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        with torch.no_grad():
            old_logp = get_per_token_logps(actor.module, scored)
        actor.update_policy(extend(scored, Ready, old_logp=old_logp, advantages=adv[:, None] * scored.loss_mask))
        return scored.rewards.mean().item()

    return update, draw
