"""PPO for tokens with a critic: Ready's optional fields, torch."""
from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from typedbatch import Batch, extend, objects
from typedbatch.posttraining import PolicyLossProtocol, Prompts, Ready, Rollouts, Scored, SequenceProtocol


class Critic:
    def __init__(self, vocabulary: int) -> None:
        self.table = torch.zeros(vocabulary, requires_grad=True)

    def __call__(self, batch: SequenceProtocol) -> Tensor:
        return self.table[batch.response_ids] * batch.response_mask


class WithValues(Ready):
    """Here the values are not optional."""

    v: Tensor
    ret: Tensor


class ValueInputs(SequenceProtocol, PolicyLossProtocol, Protocol):
    @property
    def ret(self) -> Tensor: ...


def gae(rewards: Tensor, values: Tensor, mask: Tensor, lam: float = 0.95) -> tuple[Tensor, Tensor]:
    n, length = values.shape
    adv = torch.zeros(n, length)
    running = torch.zeros(n)
    for t in range(length - 1, -1, -1):
        after = values[:, t + 1] if t + 1 < length else rewards
        running = (after - values[:, t]) + lam * running
        adv[:, t] = running
    return adv * mask, (adv + values) * mask


def prepare(critic: Critic, scored: Scored) -> WithValues:
    with torch.no_grad():
        v = critic(scored)
        adv, ret = gae(scored.rewards, v, scored.loss_mask)
    return extend(scored, WithValues, old_logp=torch.full_like(adv, -1.0), advantages=adv, v=v, ret=ret)


def value_loss(critic: Critic, batch: ValueInputs) -> Tensor:
    return (critic(batch) - batch.ret)[batch.loss_mask].pow(2).mean()


def value_loss_too_early(critic: Critic, batch: Ready) -> Tensor:
    return value_loss(critic, batch)  # E: user-wrong-stage


def value_loss_plain(critic: Critic, batch: Batch) -> Tensor:
    return value_loss(critic, batch)  # E: user-unchecked


def start(n: int) -> Rollouts:
    ids = torch.randint(0, 6, (n, 3))
    mask = torch.arange(4) < torch.randint(1, 5, (n, 1))
    prompts = Prompts(prompt_ids=ids, prompt_mask=ids >= 0, uid=objects([str(i) for i in range(n)]))
    responses = torch.randint(0, 6, (n, 4))
    return extend(prompts, Rollouts, response_ids=responses, response_mask=mask, loss_mask=mask)


def uid_as_tensor(ids: Tensor, n: int) -> Prompts:
    return Prompts(prompt_ids=ids, prompt_mask=ids >= 0, uid=torch.arange(n))  # E: user-wrong-kind


def main() -> None:
    critic = Critic(6)
    log = Batch()
    log.value = Batch()
    for step in range(3):
        rollouts = start(8)
        scored = extend(rollouts, Scored, rewards=rollouts.response_mask.float().mean(1))
        ready = prepare(critic, scored)
        losses: list[Tensor] = []
        for mb in ready.split(4, shuffle=False):
            loss = value_loss(critic, mb)
            (grad,) = torch.autograd.grad(loss, [critic.table])
            critic.table.data.sub_(0.5 * grad)
            losses.append(loss.detach())
        log.value[f"step{step}"] = torch.stack(losses)
        log.tokens = ready.loss_mask.sum()
    log.to_numpy_()
    print(log.value.step0.mean().round(2), log.value.step2.shape, log.tokens > 0)


if __name__ == "__main__":
    main()
