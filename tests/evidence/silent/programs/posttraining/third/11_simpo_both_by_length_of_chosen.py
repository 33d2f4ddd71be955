"""SimPO: the rewards of both sides are the mean log-prob of their tokens, with a target margin (arXiv:2405.14734)."""
# wrong: """SimPO: both sums of log-probs are divided by the length of the chosen response, so short rejected ones look too good."""

# Source: TRL's CPOTrainer with loss_type="simpo" needs average_log_prob over the mask of each side
import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, sample
from tests.evidence.silent.shared.models import LSTMLM
from typedbatch import extend
from typedbatch.posttraining import Pairs, Scored
from typedbatch.rows import repeat

RESPONSE = 6
SAMPLES, BETA, GAMMA = 4, 2.0, 0.5


def score(rollouts):
    """The difference of neighbours in a response, which is to be one."""
    ids, mask = rollouts.response_ids, rollouts.response_mask
    steps = ((ids[:, 1:] - ids[:, :-1]) == 1) & mask[:, 1:]
    return extend(rollouts, Scored, rewards=steps.sum(1) + 0.01 * torch.rand(len(ids)))


def best_and_worst(scored):
    table = scored.rewards.view(-1, SAMPLES)
    start = torch.arange(len(table)) * SAMPLES
    best, worst = scored[start + table.argmax(1)], scored[start + table.argmin(1)]
    return Pairs(
        prompt_ids=best.prompt_ids,
        prompt_mask=best.prompt_mask,
        chosen_ids=best.response_ids,
        chosen_mask=best.response_mask,
        rejected_ids=worst.response_ids,
        rejected_mask=worst.response_mask,
    )


def sum_logp(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def simpo_loss(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sum_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    rejected = sum_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)
    chosen_reward = BETA * chosen / pairs.chosen_mask.sum(1)
    rejected_reward = BETA * rejected / pairs.rejected_mask.sum(1)
    # wrong: rejected_reward = BETA * rejected / pairs.chosen_mask.sum(1)
    return -F.logsigmoid(chosen_reward - rejected_reward - GAMMA).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = LSTMLM(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (best_and_worst(score(sample(model, repeat(draw_prompts(24), SAMPLES), RESPONSE))),)

    def update(pairs):
        losses = []
        for part in pairs.split(8, rng=torch.default_generator):
            loss = simpo_loss(model, part)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
