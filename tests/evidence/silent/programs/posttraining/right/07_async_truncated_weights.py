"""Asynchronous RLOO: a queue of rollouts of older weights, too old ones are dropped, the rest are weighted per token."""

# TIS and decoupled PPO (AReaL, arXiv:2505.24298): the ratio is against the trainer's weights of now, the weight to the sampler
import copy
from collections import deque
from uuid import uuid4

import torch
from torch import nn

from typedbatch import cat, extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, AHEAD, SYNC, OLDEST, CAP, CLIP = 4, 3, 2, 6, 2.0, 0.2


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


class RolloutWorker:
    """Samples AHEAD batches before they are needed, with weights that it gets every SYNC steps."""

    def __init__(self, model):
        self.model, self.version, self.queue = copy.deepcopy(model), 0, deque()

    def receive(self, model, version):
        self.model.load_state_dict(model.state_dict())
        self.version = version

    def fill(self):
        while len(self.queue) < AHEAD:
            rollouts = generate(self.model, repeat(draw_prompts(12), GROUP))
            self.queue.append(score(extend(rollouts, Rollouts, policy_step=torch.full((len(rollouts),), self.version))))

    def take(self):
        self.fill()
        return self.queue.popleft()


class Learner:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model, self.step = Recurrent(), 0
        self.worker = RolloutWorker(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=4e-3)

    def draw(self):
        scored = cat([self.worker.take(), self.worker.take()])  # may be of two versions
        return (scored[self.step - scored.policy_step <= OLDEST],)

    @torch.no_grad()
    def prepare(self, scored):
        advantages = scored.rewards - groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        old_logp = token_logp(self.model, scored)
        is_weights = (old_logp - scored.rollout_logp).exp().clamp(max=CAP) * scored.loss_mask
        return extend(
            scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask, is_weights=is_weights
        )

    def update(self, scored):
        for part in self.prepare(scored).split(32, rng=torch.default_generator):
            ratio = (token_logp(self.model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(part.is_weights * gain).sum() / part.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.step += 1
        if self.step % SYNC == 0:
            self.worker.receive(self.model, self.step)
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    learner = Learner(seed)
    return learner.update, learner.draw
