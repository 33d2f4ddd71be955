"""CISPO: the clipped ratio is a weight without gradient on the log-probs; there is no minimum, and no lower bound."""

# arXiv:2506.13585
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, EPOCHS, HIGH = 6, 2, 2.0


class Window(nn.Module):
    """Next token from the last two tokens and the mean of all so far: causal, and padding is left out."""

    def __init__(self, dim=24, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.net = nn.Sequential(nn.Linear(3 * dim, hidden), nn.Tanh(), nn.Linear(hidden, VOCAB))

    def forward(self, ids, mask):
        x = self.embed(ids) * mask.unsqueeze(-1)
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        mean = x.cumsum(1) / mask.long().cumsum(1).clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, before, mean], dim=-1))


class PromptSet:
    """Endless prompts, padded on the left, each with an identifier of its own."""

    def __init__(self, seed):
        self.rng, self.served = np.random.default_rng(seed), 0

    def next(self, count):
        rows = [self.rng.integers(DIGITS, size=self.rng.integers(2, PROMPT + 1)).tolist() for _ in range(count)]
        names = objects(f"prompt-{self.served + i}" for i in range(count))
        self.served += count
        return Prompts(
            prompt_ids=torch.tensor([[PAD] * (PROMPT - len(row)) + row for row in rows]),
            prompt_mask=torch.tensor([[False] * (PROMPT - len(row)) + [True] * len(row) for row in rows]),
            uid=names,
        )


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive, logps = torch.ones(len(prompts), dtype=torch.bool), []
    for _ in range(RESPONSE):
        logp = model(ids, mask)[:, -1].log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1)[:, 0].where(alive, PAD)
        logps.append(logp.gather(1, token[:, None])[:, 0] * alive)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts,
        Rollouts,
        response_ids=ids[:, PROMPT:],
        response_mask=there,
        loss_mask=there.clone(),
        rollout_logp=torch.stack(logps, 1),
        response_length=there.sum(1),
        truncated=alive,
    )


def response_logps(model, batch):
    """Of the tokens of the responses, by cross entropy; 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    width = batch.response_ids.size(1)
    logits = model(ids, mask)[:, -width - 1 : -1]
    losses = F.cross_entropy(logits.transpose(1, 2), batch.response_ids, reduction="none")
    return -losses.masked_fill(~batch.response_mask, 0.0)


def score(rollouts):
    """The share of tokens that are the first digit of the prompt, and a bonus for an end."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = ((rollouts.response_ids == first) & rollouts.response_mask).sum(1)
    return extend(rollouts, Scored, rewards=hits / rollouts.response_mask.sum(1) + 0.2 * ~rollouts.truncated)


def cispo_loss(policy, batch):
    logps = response_logps(policy, batch)
    weight = torch.exp(logps - batch.old_logp).clamp(max=HIGH).detach()
    return -(weight * batch.advantages * logps)[batch.loss_mask].mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, policy = PromptSet(seed), Window()
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)

    def draw():
        return (score(generate(policy, repeat(prompts.next(16), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old_logp = response_logps(policy, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)
        for _ in range(EPOCHS):
            for batch in ready.split(32, rng=torch.default_generator):
                optimizer.zero_grad()
                cispo_loss(policy, batch).backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
