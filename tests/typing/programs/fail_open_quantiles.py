"""Distributional RL (QR-DQN) in torch, with own output records and protocols."""
from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from typedbatch import (
    Batch, BatchProtocol, ModelOutputBatchProtocol, QuantileRegressionBatch, QuantileRegressionBatchProtocol,
    RolloutBatch, RolloutBatchProtocol, extend, validate,
)


class WithTargets(RolloutBatch[Tensor]):
    target: Tensor


class Reads(BatchProtocol, Protocol):
    @property
    def obs(self) -> Tensor: ...
    @property
    def act(self) -> Tensor: ...
    @property
    def target(self) -> Tensor: ...


class QR:
    def __init__(self, dim: int, actions: int, quantiles: int) -> None:
        self.net = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, actions * quantiles))
        self.actions, self.quantiles = actions, quantiles
        self.taus = (torch.arange(quantiles) + 0.5) / quantiles

    def __call__(self, obs: Tensor) -> QuantileRegressionBatch[Tensor]:
        flat: Tensor = self.net(obs)
        logits = flat.view(-1, self.actions, self.quantiles)
        act = logits.mean(-1).argmax(-1)
        return QuantileRegressionBatch[Tensor](act=act, state=None, logits=logits, taus=self.taus.expand(len(obs), -1))

    def forget_taus(self, obs: Tensor) -> QuantileRegressionBatch[Tensor]:
        logits: Tensor = self.net(obs)
        return QuantileRegressionBatch[Tensor](act=logits.argmax(-1), state=None, logits=logits)  # E: user-missing

    def process(self, batch: RolloutBatchProtocol[Tensor]) -> WithTargets:
        with torch.no_grad():
            out = self(batch.obs_next)
            best = out.logits[torch.arange(len(batch)), out.act]
        alive = (~batch.terminated).float()[:, None]
        return extend(batch, WithTargets, target=batch.rew[:, None] + 0.9 * alive * best)

    def loss(self, batch: Reads) -> Tensor:
        out = self(batch.obs)
        now = out.logits[torch.arange(len(batch)), batch.act]
        error = batch.target[:, None, :] - now[:, :, None]
        return (torch.abs(self.taus[None, :, None] - (error.detach() < 0).float()) * error.abs()).mean()


def spread(out: QuantileRegressionBatchProtocol[Tensor]) -> float:
    return (out.logits.std(-1).mean() * out.taus.mean()).item()


def spread_of(out: ModelOutputBatchProtocol[Tensor]) -> float:
    return spread(out)  # E: user-wrong-stage


def memory(n: int) -> Batch:
    batch = Batch(obs=torch.randn(n, 3), act=torch.randint(0, 2, (n,)))
    batch.obs_next = batch.obs + 0.1
    batch.rew = batch.obs.mean(1)
    batch.terminated = batch.rew > 1
    batch.truncated = torch.zeros_like(batch.terminated)
    batch.info = Batch(cost=torch.zeros(n))
    batch.info.cost[batch.terminated] = 1.0
    return batch


def train_raw(qr: QR, data: Batch) -> Tensor:
    data.target = torch.zeros(len(data), qr.quantiles)
    return qr.loss(data)  # E: user-unchecked


def main() -> None:
    qr = QR(3, 2, 5)
    data = memory(64)
    print(data.info.cost.sum() >= 0)
    rollout = validate(data, RolloutBatch[Tensor])
    for mb in rollout.split(32):
        loss = qr.loss(qr.process(mb))
        parameters = list(qr.net.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.data.sub_(0.1 * g)
        print(loss.item() > 0)
    print(spread(qr(data.obs)) > 0, train_raw(qr, data).item() > 0)


if __name__ == "__main__":
    main()
