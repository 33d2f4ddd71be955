"""REINFORCE with torch; the batch is open until it is validated."""
from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchProtocol, RolloutBatch, convert, validate


class Episode(BatchProtocol, Protocol):
    @property
    def obs(self) -> Tensor: ...
    @property
    def act(self) -> Tensor: ...
    @property
    def returns(self) -> Tensor: ...


def sgd(net: nn.Module, loss: Tensor, lr: float) -> None:
    parameters = list(net.parameters())
    grads = torch.autograd.grad(loss, parameters)
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.data.sub_(lr * grad)


def discounted(rew: Tensor, gamma: float) -> Tensor:
    out = torch.zeros_like(rew)
    running = torch.zeros(())
    for t in range(len(rew) - 1, -1, -1):
        running = rew[t] + gamma * running
        out[t] = running
    return out


def reinforce_loss(net: nn.Module, batch: Episode) -> Tensor:
    logits: Tensor = net(batch.obs)
    logp = logits.log_softmax(-1).gather(1, batch.act[:, None]).squeeze(1)
    return -(logp * batch.returns).mean()


def episode(generator: torch.Generator, steps: int) -> Batch:
    batch = Batch()
    batch.obs = torch.randn(steps, 3, generator=generator)
    batch.act = torch.randint(0, 2, (steps,), generator=generator)
    batch.rew = batch.obs[:, 0] * batch.act
    batch.info = Batch(env_id=torch.zeros(steps, dtype=torch.int64))
    return batch


def finish(batch: Batch) -> Episode:
    batch.returns = discounted(batch.rew, 0.9)
    batch.returns -= batch.returns.mean()
    return validate(batch, Episode)


def finish_carelessly(batch: Batch) -> Episode:
    batch.returns = discounted(batch.rew, 0.9)
    return batch  # E: user-unchecked


def arrays_for_tensors(rollout: RolloutBatch) -> RolloutBatch[Tensor]:
    return rollout  # E: user-wrong-kind


def tensors(rollout: RolloutBatch) -> RolloutBatch[Tensor]:
    return convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    episodes = [episode(generator, 20) for _ in range(4)]
    for part in episodes:
        part.info.env_id += 1
    whole = Batch.cat(episodes)
    print(whole.info.env_id.sum().item(), len(whole))
    for mb in whole.split(32, shuffle=False):
        loss = reinforce_loss(net, finish(mb))
        sgd(net, loss, 0.01)
        print(round(loss.item(), 3))
    last = whole[-1]
    print(last.obs.shape, "returns" in whole)


if __name__ == "__main__":
    main()
