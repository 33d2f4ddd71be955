"""GRPO: old log-probs are computed when they are needed, from a snapshot of the weights that sampled."""
# wrong: """GRPO: the snapshot of the old weights holds the parameters themselves, so the ratio is always 1 and never clipped."""

# state_dict() returns references: pytorch.org, "Saving and loading models"; they change in the next step
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, EPOCHS, CLIP = 6, 4, 0.2


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


class OldPolicy:
    """The policy with the weights it had, without a second module."""

    def __init__(self, policy):
        self.policy = policy
        self.weights = {name: weight.clone() for name, weight in policy.state_dict().items()}
        # wrong: self.weights = dict(policy.state_dict())

    def __call__(self, ids, mask):
        return functional_call(self.policy, self.weights, (ids, mask))


def reward(rollouts):
    """The share of steps up by one."""
    steps = (rollouts.response_ids[:, 1:] - rollouts.response_ids[:, :-1]) == 1
    steps = steps & rollouts.response_mask[:, 1:]
    return extend(rollouts, Scored, rewards=steps.sum(1) / (RESPONSE - 1))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, policy = PromptSet(seed), Window()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def draw():
        return (reward(generate(policy, repeat(prompts.next(12), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        old_policy = OldPolicy(policy)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(scored)).split(24):
                part, advantage = scored[rows], advantages[rows, None]
                with torch.no_grad():
                    old_logps = response_logps(old_policy, part)
                ratio = torch.exp(response_logps(policy, part) - old_logps)
                gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
                loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
