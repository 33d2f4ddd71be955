"""PPO over tokens: KL as a reward of each token, the score at the last one, GAE, a critic."""
# wrong: """PPO over tokens: the score is broadcast to every token, so the return is the score times the tokens that are left."""

import copy
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
KL, LAMBDA, CLIP, EPOCHS = 0.02, 0.95, 0.2, 2


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


class Critic(Recurrent):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(self.width, 1)

    def forward(self, ids, mask):
        return self.head(self.states(ids, mask)).squeeze(-1)


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


def token_values(critic, batch):
    """The value before each token of the response (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    return critic(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1] * batch.response_mask


def token_rewards(scored, logp, ref_logp):
    penalty = -KL * (logp - ref_logp)
    is_last = torch.arange(penalty.shape[1]) == scored.response_length[:, None] - 1
    # wrong: return (scored.rewards[:, None] + penalty) * scored.response_mask
    return (scored.rewards[:, None] * is_last + penalty) * scored.response_mask
    # wrong: without this line


def gae(rewards, values, mask):
    advantages, running = torch.zeros_like(rewards), torch.zeros(len(rewards))
    after = torch.cat([values[:, 1:], torch.zeros(len(values), 1)], 1)
    for t in reversed(range(rewards.shape[1])):
        running = (rewards[:, t] + after[:, t] - values[:, t] + LAMBDA * running) * mask[:, t]
        advantages[:, t] = running
    return advantages


@torch.no_grad()
def prepare(actor, critic, reference, scored):
    logp, ref_logp, values = token_logp(actor, scored), token_logp(reference, scored), token_values(critic, scored)
    mask = scored.loss_mask
    raw = gae(token_rewards(scored, logp, ref_logp), values, mask)
    advantages = (raw - raw[mask].mean()) / (raw[mask].std() + 1e-8) * mask
    more = {"ref_logp": ref_logp, "values": values, "returns": raw + values}
    return extend(scored, Ready, old_logp=logp, advantages=advantages, **more)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic = Recurrent(), Critic()
    reference = copy.deepcopy(actor).requires_grad_(False)
    optimizer = torch.optim.Adam([{"params": actor.parameters()}, {"params": critic.parameters(), "lr": 1e-2}], lr=4e-3)

    def draw():
        return (score(generate(actor, draw_prompts(48))),)

    def update(scored):
        ready = prepare(actor, critic, reference, scored)
        for _ in range(EPOCHS):
            for part in ready.split(16, rng=torch.default_generator):
                ratio = (token_logp(actor, part) - part.old_logp).exp()
                gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
                error = (token_values(critic, part) - part.returns).square()
                loss = (0.5 * error - gain)[part.loss_mask].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
