"""REINFORCE with a KL penalty in the reward of each token and the mean of the batch as the baseline."""
# wrong: """REINFORCE: the KL penalty in the rewards is not detached, so there is a gradient through the advantages."""

import copy
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 6, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
KL_COEF = 0.05


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


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there, truncated=alive)


def logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def reward_to_go(token_rewards):
    return token_rewards.flip(1).cumsum(1).flip(1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = GRULM()
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def draw():
        rollouts = sample(policy, repeat(draw_prompts(16), 4))
        hits = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=hits.sum(1).float()),)

    def update(scored):
        mask = scored.loss_mask
        log_prob = logp(policy, scored)
        ref_log_prob = logp(reference, scored)
        kl = (log_prob.detach() - ref_log_prob) * mask
        # wrong: kl = (log_prob - ref_log_prob) * mask
        last = torch.arange(RESPONSE) == mask.sum(1, keepdim=True) - 1
        token_rewards = scored.rewards[:, None] * last - KL_COEF * kl
        returns = reward_to_go(token_rewards)
        advantages = (returns - returns[mask].mean()) * mask
        loss = -(advantages * log_prob).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
