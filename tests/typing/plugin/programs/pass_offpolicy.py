"""DQN, SAC and offline learning on plain batches: targets, prioritised weights, logged data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import (
    ActBatchProtocol,
    Batch,
    DistLogProbBatchProtocol,
    ImitationBatchProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    RolloutBatchProtocol,
    convert,
    extend,
    validate,
)

Array = NDArray[Any]


def nstep(rew: Array, gamma: float, n: int) -> tuple[Array, Array]:
    out = np.zeros_like(rew)
    for k in range(n):
        out[: len(rew) - k] += gamma**k * rew[k:]
    return out, np.full(len(rew), gamma**n)


class Replay:
    """A replay buffer on one plain batch that is made with the first transition."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.filled = 0
        self.store = Batch()

    def add(self, row: Batch) -> None:
        if not len(self.store.keys()):
            self.store = Batch.stack([row] * self.size)
            self.store.prio = np.ones(self.size)
        self.store.prio[self.filled % self.size] = 1.0
        self.filled += 1

    def sample(self, n: int) -> PrioBatchProtocol:
        rows = np.arange(min(n, self.filled))
        picked = self.store[rows]
        picked.weight = 1 / self.store.prio[rows]
        return validate(picked, PrioBatchProtocol)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Linear(4, 2)
        self.target = nn.Linear(4, 2)

    def q(self, batch: ObsBatchProtocol[Tensor]) -> ModelOutputBatchProtocol[Tensor]:
        out = Batch(logits=self.online(batch.obs.float()), state=None)
        out.act = out.logits.argmax(-1)
        return out

    def targets(self, batch: PrioBatchProtocol[Tensor], gamma: float) -> Tensor:
        b = Batch(obs=batch.obs_next.float(), done=batch.terminated.float())
        with torch.no_grad():
            b.best = self.online(b.obs).argmax(-1, keepdim=True)
            b.q_next = self.target(b.obs).gather(-1, b.best).squeeze(-1)
            b.value = batch.rew + gamma * (1 - b.done) * b.q_next
        value: Tensor = b.value
        return value

    def learn(self, batch: PrioBatchProtocol[Tensor]) -> tuple[Tensor, Tensor]:
        b = Batch(q=self.q(batch), target=self.targets(batch, 0.99))
        b.chosen = b.q.logits.gather(-1, batch.act.long()[:, None]).squeeze(-1)
        b.td = b.target - b.chosen
        b.loss = (b.td.pow(2) * batch.weight).mean()
        torch.autograd.backward(b.loss)
        return b.loss, b.td.detach().abs()


class Sac(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.alpha = Batch(value=0.2, log=torch.zeros(1), target=-1.0)

    def sample(self, batch: ObsBatchProtocol[Tensor]) -> DistLogProbBatchProtocol[Tensor]:
        out = Batch(logits=self.actor(batch.obs.float()), state=None)
        out.mean, out.log_std = out.logits.chunk(2, dim=-1)
        out.dist = Normal(out.mean, out.log_std.exp())
        out.act = out.dist.mean
        out.log_prob = torch.zeros(len(batch))
        return out

    def tune(self, log_prob: Tensor) -> float:
        self.alpha.loss = -(self.alpha.log * (log_prob + float(self.alpha.target)).detach()).mean()
        self.alpha.value = self.alpha.log.exp().item()
        print(self.alpha.loss.item())
        return float(self.alpha.value)

    def losses(self, batch: PrioBatchProtocol[Tensor]) -> Mapping[str, float]:
        now = self.sample(batch)
        stats = Batch(actor=now.log_prob.mean(), critic=batch.rew.mean())
        if float(self.alpha.value) > 0:
            stats.alpha = self.tune(now.log_prob)
        else:
            stats.alpha = 0.0
        stats.total = stats.actor + stats.critic
        return {"total": float(stats.total), "alpha": float(stats.alpha), **{k: float(v) for k, v in stats.items()}}


def imitate(batch: ObsBatchProtocol[Tensor]) -> ImitationBatchProtocol[Tensor]:
    logits = torch.zeros(len(batch.obs), 2)
    q = Batch(q_value=logits, imitation_logits=logits.log_softmax(-1))
    q.mask = (q.imitation_logits - q.imitation_logits.max(-1, keepdim=True).values).exp() > 0.3
    q.act, q.logits, q.state = (q.q_value - 1e8 * (~q.mask).float()).argmax(-1), q.q_value, None
    return q


def transition(step: int) -> Batch:
    row = Batch(obs=np.full(4, step, np.float32), act=step % 2, info=Batch(step=step))
    row.obs_next = row.obs + 1
    row.rew = float(step)
    row.terminated, row.truncated = False, step == 3
    return row


def offline(table: dict[str, Array]) -> RolloutBatchProtocol:
    b = Batch(table)
    b["rew"] = (b["rew"] - b["rew"].mean()) / (b["rew"].std() + 1e-8)
    b["truncated"] = np.zeros(len(b), bool)
    b.pop("episode_id")
    return validate(b, RolloutBatchProtocol)


def logged(rows: Iterable[Mapping[str, Any]]) -> Array:
    b = Batch(list(rows))
    b.update(extra=np.zeros(len(b)))
    print(b["extra"], b["obs"])
    clean = Batch(obs=b["obs"], act=b["act"])
    clean.ret, clean.discount = nstep(np.ones(len(b)), 0.9, 2)
    mask = clean.ret > clean.ret.mean()
    best = clean[mask]
    print(best.obs, best.discount, clean.dropnull().act, clean.isnull().act, clean.to_at_least_2d().ret)
    low, high = clean.ret.min(), clean.ret.max()
    clean.ret = (clean.ret - low) / (high - low + 1e-8)
    weights = Batch(w=np.exp(clean.ret), n=len(clean))
    weights.w /= weights.w.sum()
    weights["cdf"] = weights.w.cumsum()
    del weights["n"]
    weights.setdefault("n", 5)
    weights.setdefault("seed", [1, 2])
    print(weights.n, weights.seed, weights.cdf)
    scaled = clean * 2
    print(scaled["ret"], np.mean(clean)["ret"])
    total: Array = weights.w
    return total


def priorities(n: int) -> Array:
    b = Batch(td=np.arange(n, dtype=float))
    b.prio = np.abs(b.td) ** 0.6
    b.prob = b.prio / b.prio.sum()
    b.weight = (n * b.prob.clip(1e-6)) ** -0.4
    b.set_array_at_key(np.zeros(n), "age")
    print(b.age, b["age"])
    b.cat_(Batch(td=[0.0], prio=[0.0], prob=[0.0], weight=[0.0], age=[0.0]))
    print(b.td.shape, b.popitem())
    rows = Batch(td=np.zeros(3), mark=[1, 2, 3])
    rows[0] = Batch(td=1.0, mark=5)
    rows[1:] = {"td": [1.0, 2.0], "mark": [0, 0]}
    print(rows.td, rows.mark)
    joined = Batch.cat([{"td": np.zeros(2)}, Batch(td=np.ones(1))])
    print(joined.td, Batch.stack((rows, rows), axis=1).mark)
    filled = Batch.stack([Batch(a=1.0), Batch(a=2.0, b=3.0)])
    print(filled.a, filled.b)
    padded = Batch.cat([Batch(a=[1.0]), Batch(b=[2.0])], missing="pad")
    print(padded.a, padded.b)
    return rows.td


def greedy(batch: ObsBatchProtocol, eps: float) -> ActBatchProtocol:
    out = Batch(act=batch.obs.argmax(-1))
    out.random = np.random.rand(len(out.act)) < eps
    out.act[out.random] = 0
    return out


def main() -> None:
    replay = Replay(4)
    for step in range(4):
        replay.add(transition(step))
    sampled = replay.sample(3)
    batch = convert(sampled, PrioBatchProtocol[Tensor])
    loss, td = Critic().learn(batch)
    assert_type(td, Tensor)
    sac = Sac()
    assert set(sac.losses(batch)) >= {"total", "alpha", "actor"}
    assert imitate(batch).act.shape == (3,)
    table = {name: sampled[name] for name in ("obs", "act", "rew", "obs_next", "terminated")}
    offline({**table, "info": np.array([None] * 3), "episode_id": np.zeros(3)})
    logged([{"obs": [1.0], "act": 0}, {"obs": [2.0], "act": 1}])
    priorities(3), greedy(sampled, 0.5)
    extend(sampled, PrioBatchProtocol, weight=np.ones(3))
    print(float(loss.detach()))


main()
