"""GRPO with rollouts sorted by length to save padding; groups are found by uid."""
# wrong: """GRPO: rollouts are sorted by length to save padding, and then every G rows in order are taken for a group."""

# miles PR 1573 (review): view(-1, n_samples) groups samples of other prompts if the rows were reordered
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat
# wrong: from typedbatch.rows import repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
PAD, EOS, VOCAB = 6, 7, 8
N_SAMPLES = 6


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
    policy = Policy(VOCAB)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def update(scored):
        return train_step(policy, optimizer, scored)

    def draw():
        prompts = repeat(make_prompts(rng, 8, LETTERS, MAX_PROMPT), N_SAMPLES)
        return (reward_fn(generate(policy, prompts, MAX_NEW, PAD, EOS)),)

    return update, draw
