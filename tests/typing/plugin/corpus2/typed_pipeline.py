"""Actor-critic on records and protocols from end to end, with checked functions and a registry of losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    checked,
    convert,
    extend,
    stack,
)

Arr = NDArray[Any]


class HasAdv(BatchProtocol, Protocol):
    @property
    def adv(self) -> Arr: ...


class HasReturns(BatchProtocol, Protocol):
    @property
    def returns(self) -> Arr: ...


class Policy(Protocol):
    def __call__(self, batch: ObsBatchProtocol[Tensor]) -> Tensor: ...


class Losses(BatchRecord):
    policy: Tensor
    value: Tensor


A = TypeVar("A", bound=HasAdv)
Loss = Callable[[LogpOldProtocol[Tensor], Tensor, Tensor], Losses]
REGISTRY: dict[str, Loss] = {}


def register(name: str) -> Callable[[Loss], Loss]:
    def add(fn: Loss) -> Loss:
        REGISTRY[name] = fn
        return fn

    return add


def collect(n: int, rng: np.random.Generator) -> RolloutBatch:
    rows = []
    x = rng.normal(size=3)
    for t in range(n):
        act = int(rng.integers(2))
        nxt = 0.9 * x + 0.2 * (act - 0.5)
        draft = Batch(obs=x, obs_next=nxt, act=act, rew=-float(np.abs(nxt).mean()))
        draft.terminated = t % 10 == 9
        draft.truncated = False
        row = RolloutBatch(info=Batch(), **{k: np.asarray(v) for k, v in draft.items()})
        rows.append(row)
        x = rng.normal(size=3) if draft.terminated else nxt
        #! old-name: x = rng.normal(size=3) if draft.done else nxt
    return stack(rows)


@checked
def with_returns(batch: RolloutBatchProtocol, gamma: float = 0.95) -> BatchWithReturns:
    ret = np.zeros(len(batch) + 1)
    for t in reversed(range(len(batch))):
        ret[t] = batch.rew[t] + gamma * ret[t + 1] * ~batch.terminated[t]
        #! later-stage: ret[t] = batch.rew[t] + gamma * batch.returns[t + 1] * ~batch.terminated[t]
    return extend(batch, BatchWithReturns, returns=ret[:-1])
    #! misspelt-keyword: return extend(batch, BatchWithReturns, retruns=ret[:-1])


def with_advantages(batch: BatchWithReturnsProtocol, values: Arr) -> BatchWithAdvantages:
    return extend(batch, BatchWithAdvantages, adv=batch.returns - values, v_s=values)
    #! forgotten-field: return extend(batch, BatchWithAdvantages, adv=batch.returns - values)


def only_good(batch: A, least: float) -> A:
    return batch[batch.adv >= least]
    #! misspelt-read: return batch[batch.advantage >= least]


def spread(batch: HasReturns) -> float:
    return float(batch.returns.std())


@register("pg")
def pg(batch: LogpOldProtocol[Tensor], logp: Tensor, values: Tensor) -> Losses:
    return Losses(policy=-(logp * batch.adv), value=(values - batch.returns) ** 2)


@register("clip")
def clipped(batch: LogpOldProtocol[Tensor], logp: Tensor, values: Tensor) -> Losses:
    ratio = (logp - batch.logp_old).exp()
    obj = torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv)
    return Losses(policy=-obj, value=(values - batch.returns).clamp(-1, 1) ** 2)


@dataclass
class Linear:
    w: Tensor

    def __call__(self, batch: ObsBatchProtocol[Tensor]) -> Tensor:
        return torch.log_softmax(batch.obs @ self.w, -1)


def minibatches(batch: LogpOldBatch, size: int) -> Iterator[LogpOldBatch[Tensor]]:
    for mb in batch.split(size, rng=0):
        yield convert(mb, LogpOldBatch[Tensor])


def learn(data: LogpOldBatch, loss_fn: Loss, w: Tensor, v: Tensor) -> Batch:
    seen: list[Losses] = []
    for mb in minibatches(data, 16):
        policy: Policy = Linear(w)
        logp = policy(mb).gather(1, mb.act[:, None]).squeeze(1)
        losses = loss_fn(mb, logp, mb.obs @ v)
        #! wrong-argument: losses = loss_fn(convert(data, BatchWithReturns[Tensor]), logp, mb.obs @ v)
        g = torch.autograd.grad(losses.policy.mean() + losses.value.mean(), [w, v])
        #! misspelt-read: g = torch.autograd.grad(losses.policy.mean() + losses.critic.mean(), [w, v])
        with torch.no_grad():
            w -= 0.1 * g[0]
            v -= 0.1 * g[1]
        seen.append(losses)
    out = Batch(policy=np.mean([float(s.policy.mean()) for s in seen]), n=len(seen))
    out.value = np.mean([float(s.value.mean()) for s in seen])
    return out


def show(name: str, numbers: Mapping[str, Any]) -> None:
    print(name, {k: round(float(v), 3) for k, v in numbers.items()})


def main() -> None:
    for name, loss_fn in REGISTRY.items():
        w = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
        v = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        rng = np.random.default_rng(0)
        for _ in range(2):
            rollout = collect(40, rng)
            with_ret = with_returns(rollout)
            values = np.asarray(rollout.obs @ v.detach().numpy())
            full = with_advantages(with_ret, values)
            #! wrong-stage: full = with_advantages(rollout, values)
            good = only_good(full, float(np.quantile(full.adv, 0.2)))
            logp_old = Linear(w.detach())(convert(good, RolloutBatch[Tensor])).numpy()
            #! wrong-stage: logp_old = Linear(w.detach())(good).numpy()
            picked = np.take_along_axis(logp_old, good.act[:, None], 1)[:, 0]
            ready = extend(good, LogpOldBatch, logp_old=picked)
            info = learn(ready, loss_fn, w, v)
            info.spread = spread(ready)
            show(name, info.to_dict())
    print(int(info.n), "minibatches", float(info.spread) > 0)


if __name__ == "__main__":
    main()
