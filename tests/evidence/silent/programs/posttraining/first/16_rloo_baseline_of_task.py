"""RLOO on two tasks, with the other samples of the same prompt as the baseline."""
# wrong: """RLOO: the baseline is the mean over the other samples of the task, not of the prompt."""
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tests.evidence.silent.shared.letters import get_per_token_logps
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 4
PAD, EOS, VOCAB = 6, 7, 8
K = 4


class TaskPrompts(Prompts):
    task: NDArray[np.object_]


class TaskRollouts(Rollouts):
    task: NDArray[np.object_]


class TaskScored(Scored):
    task: NDArray[np.object_]


def draw_questions(rng, n):
    ids = torch.from_numpy(rng.integers(0, LETTERS, (n, MAX_PROMPT)))
    mask = torch.ones_like(ids, dtype=torch.bool)
    task = objects(("copy", "short")[i % 2] for i in range(n))
    return TaskPrompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"{rng.integers(1 << 40)}" for _ in range(n)), task=task)


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    going = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(MAX_NEW):
        token = torch.distributions.Categorical(logits=model(ids, mask)[:, -1]).sample().where(going, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, going[:, None]], 1)
        going = going & (token != EOS)
    there = mask[:, MAX_PROMPT:]
    return extend(prompts, TaskRollouts, response_ids=ids[:, MAX_PROMPT:], response_mask=there, loss_mask=there)


def reward(rollouts):
    hits = ((rollouts.response_ids == rollouts.prompt_ids[:, :1]) & rollouts.response_mask).sum(1).float()
    short = 1.0 - rollouts.response_mask.sum(1) / MAX_NEW
    is_copy = torch.from_numpy(rollouts.task == "copy")
    return extend(rollouts, TaskScored, rewards=torch.where(is_copy, hits + (rollouts.prompt_ids[:, 0] < 3), short))


def rloo_loss(model, batch):
    baseline = groups(batch, "uid").leave_one_out(batch.rewards)
    # wrong: baseline = groups(batch, "task").leave_one_out(batch.rewards)
    advantages = batch.rewards - baseline
    sequence = (get_per_token_logps(model, batch) * batch.loss_mask).sum(1)
    return -(advantages * sequence).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (reward(sample(model, repeat(draw_questions(rng, 12), K))),)

    def update(scored):
        optimizer.zero_grad()
        rloo_loss(model, scored).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
