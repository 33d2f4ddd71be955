"""GRPO with a frozen reference for the KL, and old log-probs of the policy before the update."""
# wrong: """GRPO: the old log-probs are those of the reference model, so the ratio is against the wrong policy."""

# seen when old and reference log-probs are made by one helper (verl: compute_log_prob and compute_ref_log_prob)
import copy

import numpy as np
import torch
from torch import nn

from typedbatch import checked, extend, objects
from typedbatch.posttraining import Prompts, Ready, ReferenceProtocol, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW, N = 6, 3, 5, 6
PAD, EOS, VOCAB = 6, 7, 8


class GRULM(nn.Module):
    """A recurrent language model; where there is padding its state is carried over."""

    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, VOCAB)

    def states(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h, states = x.new_zeros(len(x), x.shape[-1]), []
        for t in range(x.shape[1]):
            h = torch.where(attention_mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.states(input_ids, attention_mask))


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


class Worker:
    """Actor and reference, as in a colocated worker."""

    def __init__(self):
        self.actor = GRULM()
        self.ref = copy.deepcopy(self.actor).eval().requires_grad_(False)

    @torch.no_grad()
    def compute_log_prob(self, data):
        return get_per_token_logps(self.actor, data)

    @torch.no_grad()
    def compute_ref_log_prob(self, data):
        return get_per_token_logps(self.ref, data)


@checked
def loss_of(batch: ReferenceProtocol, logps: torch.Tensor, clip=0.2, beta=0.01):
    ratio = torch.exp(logps - batch.old_logp)
    pg = torch.max(-batch.advantages * ratio, -batch.advantages * ratio.clamp(1 - clip, 1 + clip))
    diff = batch.ref_logp - logps
    per_token = pg + beta * (diff.exp() - diff - 1)
    return (per_token * batch.loss_mask).sum() / batch.loss_mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    worker = Worker()
    optimizer = torch.optim.Adam(worker.actor.parameters(), lr=1e-2)

    def draw():
        rollouts = generate(worker.actor, repeat(make_prompts(rng, 8), N))
        rewards = (rollouts.response_ids.eq(1) & rollouts.response_mask).float().sum(1)
        return (extend(rollouts, Scored, rewards=rewards),)

    def update(scored: Scored):
        g = groups(scored, "uid", size=N)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        ready = extend(
            scored,
            Ready,
            old_logp=worker.compute_log_prob(scored),
            # wrong: old_logp=worker.compute_ref_log_prob(scored),
            ref_logp=worker.compute_ref_log_prob(scored),
            advantages=adv.unsqueeze(1) * scored.loss_mask,
        )
        for mini in ready.split(24, rng=torch.default_generator):
            optimizer.zero_grad()
            loss_of(mini, get_per_token_logps(worker.actor, mini)).backward()
            nn.utils.clip_grad_norm_(worker.actor.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
