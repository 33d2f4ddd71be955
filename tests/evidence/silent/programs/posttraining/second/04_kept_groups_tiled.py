"""DAPO: groups whose samples all have the same reward are filtered out, then advantages, clip-higher and token mean."""
# wrong: """DAPO: the mask of kept groups is tiled to rows as a b a b, and the rows are a a b b: other groups are filtered out."""

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
GROUP, CLIP_LOW, CLIP_HIGH = 6, 0.2, 0.28


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


def verify(rollouts):
    """1 if the response begins with the last digit of the prompt and repeats it, else 0."""
    head = rollouts.response_ids[:, :2] == rollouts.prompt_ids[:, -1:]
    return extend(rollouts, Scored, rewards=head.all(1).float())


def dynamic_sampling(scored):
    """Without the groups that have nothing to tell."""
    table = scored.rewards.view(-1, GROUP)
    keep = table.std(1) > 0
    return scored[keep.repeat_interleave(GROUP)]
    # wrong: return scored[keep.repeat(GROUP)]


class DAPO:
    def __init__(self, policy, lr):
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)

    @torch.no_grad()
    def with_advantages(self, scored):
        by_prompt = groups(scored, "uid")
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-6)
        old = response_logps(self.policy, scored)
        return extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)

    def update(self, scored):
        kept = dynamic_sampling(scored)
        if len(kept) == 0:
            return 0.0
        for batch in self.with_advantages(kept).split(24, rng=torch.default_generator):
            ratio = torch.exp(response_logps(self.policy, batch) - batch.old_logp)
            clipped = torch.clamp(ratio, 1 - CLIP_LOW, 1 + CLIP_HIGH)
            losses = -torch.min(ratio * batch.advantages, clipped * batch.advantages)
            loss = losses[batch.loss_mask].mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, algorithm = PromptSet(seed), DAPO(Window(), lr=5e-3)

    def draw():
        return (verify(generate(algorithm.policy, repeat(prompts.next(16), GROUP))),)

    return algorithm.update, draw
