"""A whole update as people write it: collect with numpy, learn with torch, log what comes of it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical
from typing_extensions import assert_type

from typedbatch import (
    Batch,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    DistBatch,
    DistBatchProtocol,
    ImitationBatchProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    QuantileRegressionBatchProtocol,
    RecurrentStateBatch,
    RolloutBatch,
    RolloutBatchProtocol,
    cat,
    checked,
    convert,
    extend,
    stack,
    validate,
)

Array = NDArray[Any]


def collect(steps: int) -> Iterator[RolloutBatch]:
    obs = np.zeros(4, np.float32)
    for step in range(steps):
        raw = Batch(obs=obs, info={"step": step}, act=step % 2, rew=1.0, terminated=False, truncated=step == steps - 1)
        obs = obs + 1
        raw["obs_next"] = obs
        yield validate(stack([raw]), RolloutBatch)


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def act(self, batch: ObsBatchProtocol[Tensor]) -> DistBatch[Tensor]:
        logits: Tensor = self.head(batch.obs)
        return DistBatch(act=logits.argmax(-1), state=None, logits=logits, dist=Categorical(logits=logits))


def returns_of(batch: RolloutBatchProtocol, gamma: float) -> BatchWithReturns:
    returns = np.zeros_like(batch.rew)
    running = 0.0
    for step in reversed(range(len(batch))):
        running = float(batch.rew[step]) + gamma * running * (1.0 - float(batch.terminated[step]))
        returns[step] = running
    return extend(batch, BatchWithReturns, returns=returns)


def prepare(batch: BatchWithReturns, actor: Actor) -> LogpOldBatch[Tensor]:
    tensors = convert(batch, BatchWithReturns[Tensor])
    with torch.no_grad():
        output = actor.act(tensors)
        logp = output.dist.log_prob(tensors.act)
    adv = tensors.returns - tensors.returns.mean()
    return extend(tensors, LogpOldBatch[Tensor], adv=adv, v_s=tensors.returns, logp_old=logp)


@checked
def surrogate(batch: LogpOldProtocol[Tensor], output: DistBatchProtocol[Tensor]) -> Tensor:
    ratio = torch.exp(output.dist.log_prob(batch.act) - batch.logp_old)
    assert_type(batch.adv, Tensor)
    clipped = ratio.clamp(0.8, 1.2)
    return -torch.min(ratio * batch.adv, clipped * batch.adv).mean()


def update(batch: LogpOldBatch[Tensor], actor: Actor, repeat: int) -> list[float]:
    losses: list[float] = []
    for _ in range(repeat):
        for mini in batch.split(4, merge_last=True, rng=0):
            loss = surrogate(mini, actor.act(mini))
            gradients = torch.autograd.grad(loss, list(actor.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(actor.parameters(), gradients, strict=True):
                    parameter.copy_(parameter - gradient * 0.01)
            losses.append(float(loss.detach()))
    return losses


# what other algorithms read
def td_error(batch: PrioBatchProtocol[Tensor], value: Callable[[Tensor], Tensor]) -> Tensor:
    return batch.weight * (batch.rew + value(batch.obs_next) - value(batch.obs))


def huber(batch: QuantileRegressionBatchProtocol[Tensor]) -> Tensor:
    return batch.taus * batch.logits


def imitate(batch: ImitationBatchProtocol[Tensor]) -> Tensor:
    return torch.where(batch.imitation_logits > 0, batch.q_value, -batch.q_value)


def detach(state: RecurrentStateBatch[Tensor]) -> tuple[Tensor, Tensor]:
    return state.hidden.detach(), state.cell.detach()


def report(batch: BatchWithAdvantagesProtocol[Tensor]) -> dict[str, float]:
    return {"adv": float(batch.adv.mean()), "value": float(batch.v_s.mean()), "rows": float(len(batch))}


def main() -> None:
    rollout = cat(list(collect(10)))
    assert_type(rollout, RolloutBatch)
    actor = Actor()
    ready = prepare(returns_of(rollout, 0.9), actor)
    assert_type(ready, LogpOldBatch[Tensor])
    assert len(update(ready, actor, 2)) == 4
    assert report(ready)["rows"] == 10


main()
