"""REINFORCE++: one sample per prompt, k1 KL in the rewards of tokens, returns of tokens whitened over the whole batch."""

# arXiv:2501.03262; whitening is over all prompts, so no group has the mean 0
import copy
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
KL, GAMMA = 0.01, 1.0


class Recurrent(nn.Module):
    """A GRU that skips padding: its state is only changed by tokens."""

    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.head = nn.Embedding(VOCAB, width), nn.GRUCell(width, width), nn.Linear(width, VOCAB)

    def states(self, ids, mask):
        x, h, states = self.embed(ids), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            h = torch.where(mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.head(self.states(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


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


def score(rollouts):
    """The share of tokens that are the first digit of the prompt, and a bonus for an end."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = ((rollouts.response_ids == first) & rollouts.response_mask).sum(1)
    return extend(rollouts, Scored, rewards=hits / rollouts.response_mask.sum(1) + 0.2 * ~rollouts.truncated)


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class ReinforcePlusPlus:
    def __init__(self, model, lr=4e-3):
        self.model, self.reference = model, copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)

    def returns(self, scored, logp, ref_logp):
        running, columns = torch.zeros(len(scored)), []
        for t in reversed(range(logp.shape[1])):
            ends = scored.response_length == t + 1
            running = GAMMA * running - KL * (logp - ref_logp)[:, t] + scored.rewards * ends
            columns.insert(0, running)
        return torch.stack(columns, 1) * scored.loss_mask

    @torch.no_grad()
    def prepare(self, scored):
        logp, ref_logp = token_logp(self.model, scored), token_logp(self.reference, scored)
        returns, mask = self.returns(scored, logp, ref_logp), scored.loss_mask
        advantages = (returns - returns[mask].mean()) * mask / (returns[mask].std() + 1e-8)
        return extend(scored, Ready, old_logp=logp, ref_logp=ref_logp, returns=returns, advantages=advantages)

    def update(self, scored):
        for part in self.prepare(scored).split(32, rng=torch.default_generator):
            ratio = (token_logp(self.model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(0.8, 1.2) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    algorithm = ReinforcePlusPlus(Recurrent())

    def draw():
        return (score(generate(algorithm.model, draw_prompts(64))),)

    return algorithm.update, draw
