"""A reward model: each two responses of a group that differ in grade are a pair; the embeddings are frozen."""

# InstructGPT (arXiv:2203.02155) trains on all comparisons of a prompt at once
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP = 5


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


class RewardModel(nn.Module):
    """The state after the last token of a row; a GRU that skips padding has it in the last column."""

    def __init__(self):
        super().__init__()
        self.backbone, self.score = Recurrent(), nn.Linear(24, 1)
        self.backbone.embed.requires_grad_(False)

    def forward(self, batch):
        ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
        mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
        return self.score(self.backbone.states(ids, mask)[:, -1]).squeeze(-1)


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


def grade(rollouts):
    """What a person says: how many tokens are the last digit of the prompt."""
    hits = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=hits.sum(1).float())


def ranking_loss(scores, grades):
    """(G, K) both: the mean over the pairs of a group first, so that a group counts once however many pairs it has."""
    margins = scores[:, :, None] - scores[:, None, :]
    better = grades[:, :, None] > grades[:, None, :]
    count = better.sum((1, 2))
    losses = (-F.logsigmoid(margins) * better).sum((1, 2)) / count.clamp(min=1)
    return losses[count > 0].mean(), (margins > 0)[better].float().mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, model = Recurrent(), RewardModel()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)

    def draw():
        return (grade(generate(policy, repeat(draw_prompts(32), GROUP))),)

    def update(scored):
        accuracies = []
        for part in scored.split(8 * GROUP, shuffle=False):  # whole groups
            loss, accuracy = ranking_loss(model(part).view(-1, GROUP), part.rewards.view(-1, GROUP))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracies.append(accuracy.item())
        return sum(accuracies) / len(accuracies)

    return update, draw
