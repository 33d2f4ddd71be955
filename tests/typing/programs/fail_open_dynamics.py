"""Model-based RL: an ensemble of dynamics models and imagined rollouts, in torch."""
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchProtocol, BatchRecord, validate


class DynamicsProtocol(BatchProtocol, Protocol):
    @property
    def obs(self) -> Tensor: ...
    @property
    def act(self) -> Tensor: ...
    @property
    def obs_next(self) -> Tensor: ...


class Dynamics(BatchRecord):
    obs: Tensor
    act: Tensor
    obs_next: Tensor


class Imagined(Dynamics):
    rew: Tensor
    disagreement: Tensor


Policy = Callable[[Tensor], Tensor]


class Ensemble:
    def __init__(self, size: int, obs_dim: int) -> None:
        self.members = [nn.Linear(obs_dim + 1, obs_dim) for _ in range(size)]
        self.normaliser = Batch(mean=torch.zeros(obs_dim), std=torch.ones(obs_dim))
        self.report = Batch()

    def fit_normaliser(self, batch: DynamicsProtocol) -> None:
        delta = batch.obs_next - batch.obs
        self.normaliser.mean = delta.mean(0)
        self.normaliser.std = delta.std(0) + 1e-6

    def predict(self, member: nn.Linear, obs: Tensor, act: Tensor) -> Tensor:
        out: Tensor = member(torch.cat([obs, act[:, None]], 1))
        delta: Tensor = out * self.normaliser.std + self.normaliser.mean
        return obs + delta

    def fit(self, batch: DynamicsProtocol, lr: float = 0.05) -> None:
        losses: list[float] = []
        for member in self.members:
            loss = (self.predict(member, batch.obs, batch.act) - batch.obs_next).pow(2).mean()
            parameters = list(member.parameters())
            for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data.sub_(lr * grad)
            losses.append(loss.item())
        self.report.losses = losses
        self.report.worst = max(losses)

    @torch.no_grad()
    def imagine(self, obs: Tensor, policy: Policy, horizon: int) -> Imagined:
        steps: list[Imagined] = []
        for _ in range(horizon):
            act = policy(obs)
            guesses = torch.stack([self.predict(member, obs, act) for member in self.members])
            obs_next = guesses.mean(0)
            steps.append(Imagined(obs=obs, act=act, obs_next=obs_next, rew=-obs_next.abs().sum(-1), disagreement=guesses.std(0).mean(-1)))
            obs = obs_next
        return Imagined.cat(steps)


def value(batch: Imagined) -> float:
    return (batch.rew - 0.1 * batch.disagreement).mean().item()


def value_of_real(batch: Dynamics) -> float:
    return value(batch)  # E: user-wrong-stage


def fit_raw(ensemble: Ensemble, data: Batch) -> None:
    ensemble.fit(data)  # E: user-unchecked


def imagined_from_numpy(batch: Dynamics) -> Imagined:
    zeros = torch.zeros(len(batch))
    return Imagined(obs=batch.obs, act=batch.act, obs_next=batch.obs_next, rew=zeros.numpy(), disagreement=zeros)  # E: user-tensor-from-numpy [not: ty, zuban]


def collect(n: int) -> Batch:
    data = Batch(obs=torch.randn(n, 3))
    data.act = torch.rand(n)
    data.obs_next = data.obs * 0.9
    data.obs_next[:, 0] += data.act
    return data


def main() -> None:
    ensemble = Ensemble(3, 3)
    data = collect(90)
    real = validate(data, Dynamics)
    ensemble.fit_normaliser(real)
    for mb in real.split(30):
        ensemble.fit(mb)
    dream = ensemble.imagine(data.obs[:10], lambda obs: obs[:, 0].tanh(), 4)
    print(len(dream), value(dream) < 0, ensemble.report.losses.shape, ensemble.report.worst > 0)
    fit_raw(ensemble, data[::2])


if __name__ == "__main__":
    main()
