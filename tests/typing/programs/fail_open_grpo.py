"""GRPO in a few lines: post-training records, tensors."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from typing_extensions import override

from typedbatch import Batch, checked, extend, objects
from typedbatch.posttraining import PolicyLossProtocol, Prompts, Ready, RewardProtocol, Rollouts, Scored
from typedbatch.rows import groups, repeat


class Logger:
    def __init__(self) -> None:
        self.last = Batch()
        self.history: list[Batch] = []

    def log(self, step: int, loss: Tensor, rewards: Tensor) -> None:
        self.last.step = step
        self.last.loss = loss.item()
        self.last.reward = Batch(mean=rewards.mean().item(), top=rewards.max().item())
        self.history.append(self.last.copy())

    def summary(self) -> Batch:
        stacked = Batch.stack(self.history)
        stacked.smooth = stacked.reward.mean.mean()
        return stacked


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 8)

    @override
    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.table(ids)
        return out


def token_logp(model: Tiny, ids: Tensor) -> Tensor:
    logits: Tensor = model(ids)
    return logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)


def sample(prompts: Prompts, generator: torch.Generator) -> Rollouts:
    ids = torch.randint(0, 8, (len(prompts), 5), generator=generator)
    mask = torch.ones_like(ids, dtype=torch.bool)
    return extend(prompts, Rollouts, response_ids=ids, response_mask=mask, loss_mask=mask)


def score(rollouts: Rollouts) -> Scored:
    return extend(rollouts, Scored, rewards=(rollouts.response_ids % 2 == 0).float().mean(1))


def advantages(batch: RewardProtocol) -> Tensor:
    by_prompt = groups(batch, "uid")
    adv = batch.rewards - by_prompt.mean(batch.rewards)
    return adv[:, None] * batch.loss_mask


def prepare(model: Tiny, scored: Scored) -> Ready:
    old = token_logp(model, scored.response_ids).detach()
    return extend(scored, Ready, old_logp=old, advantages=advantages(scored))


@checked
def policy_loss(batch: PolicyLossProtocol, logp: Tensor) -> Tensor:
    ratio = (logp - batch.old_logp).exp()
    return -(ratio * batch.advantages)[batch.loss_mask].mean()


def too_early(scored: Scored, logp: Tensor) -> Tensor:
    return policy_loss(scored, logp)  # E: user-wrong-stage


def wrong_name(scored: Scored) -> Tensor:
    return scored.reward.mean()  # E: user-misspelt


def main() -> None:
    generator = torch.Generator().manual_seed(1)
    model, logger = Tiny(), Logger()
    ids = torch.randint(0, 8, (3, 2), generator=generator)
    prompts = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids, dtype=torch.bool), uid=objects(["a", "b", "c"]))
    for step in range(3):
        scored = score(sample(repeat(prompts, 4), generator))
        ready = prepare(model, scored)
        for mb in ready.split(6, shuffle=False):
            loss = policy_loss(mb, token_logp(model, mb.response_ids))
            (grad,) = torch.autograd.grad(loss, [model.table.weight])
            model.table.weight.data.sub_(grad)
            logger.log(step, loss, mb.rewards)
    report = logger.summary()
    print(report.smooth, report.reward.top, report.loss.shape)


if __name__ == "__main__":
    main()
