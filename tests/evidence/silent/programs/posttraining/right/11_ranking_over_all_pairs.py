"""A reward model: each two responses of a group that differ in grade are a pair; the embeddings are frozen."""

# InstructGPT (arXiv:2203.02155) trains on all comparisons of a prompt at once
import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Scored
from typedbatch.rows import repeat

GROUP = 5


class RewardModel(nn.Module):
    """The state after the last token of a row; a GRU that skips padding has it in the last column."""

    def __init__(self):
        super().__init__()
        self.backbone, self.score = Recurrent(VOCAB), nn.Linear(24, 1)
        self.backbone.embed.requires_grad_(False)

    def forward(self, batch):
        ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
        mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
        return self.score(self.backbone.states(ids, mask)[:, -1]).squeeze(-1)


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
    policy, model = Recurrent(VOCAB), RewardModel()
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
