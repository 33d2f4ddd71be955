"""Prompts of digits, responses of a model, and their log-probabilities."""

from uuid import uuid4

import numpy as np
import torch
import torch.nn.functional as F

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored

DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2


def draw_prompts(count, digits=DIGITS, between=(1, PROMPT)):
    """Return prompts of random digits and lengths, padded on the left with the number of digits."""
    shortest, longest = between
    lengths = torch.randint(shortest, longest + 1, (count, 1))
    mask = torch.arange(longest) >= longest - lengths
    ids = torch.randint(digits, (count, longest)).where(mask, digits)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


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
def sample(model, prompts, steps=RESPONSE, digits=DIGITS):
    """Return responses until the end, which is `digits + 1`, or for `steps` tokens; padding is `digits`."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(steps):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, digits)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != digits + 1)
    start = prompts.prompt_ids.shape[1]
    there = mask[:, start:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, start:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


@torch.no_grad()
def generate(model, prompts):
    """Return responses with the log-probs of the sampler."""
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


def token_logp(model, batch):
    """Return log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def response_logps(model, batch):
    """Return log-probs of the tokens of the responses by cross entropy, 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    width = batch.response_ids.size(1)
    logits = model(ids, mask)[:, -width - 1 : -1]
    losses = F.cross_entropy(logits.transpose(1, 2), batch.response_ids, reduction="none")
    return -losses.masked_fill(~batch.response_mask, 0.0)


def score(rollouts):
    """Reward the share of tokens that are the first digit of the prompt, and an end."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = ((rollouts.response_ids == first) & rollouts.response_mask).sum(1)
    return extend(rollouts, Scored, rewards=hits / rollouts.response_mask.sum(1) + 0.2 * ~rollouts.truncated)


@torch.no_grad()
def rollout(model, prompts, tool, call, steps, digits):
    """Let the model write a call, append what the tool returns, and let the model answer until the end."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    start, alive, counted = ids.shape[1], torch.ones(len(prompts), dtype=torch.bool), []

    def append(token, counts):
        nonlocal ids, mask
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        counted.append(alive & counts)

    for _ in range(call):
        append(torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0], True)
    for token in tool(ids[:, -call:]).unbind(1):
        append(token, False)
    for _ in range(steps):
        token = torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(alive, digits)
        append(token, True)
        alive = alive & (token != digits + 1)
    return extend(
        prompts, Rollouts, response_ids=ids[:, start:], response_mask=mask[:, start:], loss_mask=torch.stack(counted, 1)
    )
