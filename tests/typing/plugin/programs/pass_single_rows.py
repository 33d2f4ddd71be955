"""Single rows, wherever a row is taken: by buffers, joins and assignments."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, RolloutBatch, RolloutBatchProtocol, cat, stack
from typedbatch.buffers import ReplayBuffer


class StepP(BatchProtocol, Protocol):
    obs: Float32[np.ndarray, "N 3"]
    act: Int64[np.ndarray, "N"]
    rew: Float[np.ndarray, "N"]
    terminated: Bool[np.ndarray, "N"]
    truncated: Bool[np.ndarray, "N"]
    obs_next: Float32[np.ndarray, "N 3"]


class Joint(BatchRecord):
    obs: Float[np.ndarray, "N 3"]
    act: Int64[np.ndarray, "N"]


class Tokens(BatchRecord):
    ids: Int64[Tensor, "N T"]
    mask: Bool[Tensor, "N T"]
    score: Float[Tensor, "N"]


W = np.zeros((3, 2))


def vec3(x: Float[np.ndarray, "3"]) -> None:
    print(x.shape)


def number(x: Float[np.ndarray, ""]) -> None:
    print(x)


def protocols() -> None:
    a = ReplayBuffer[RolloutBatchProtocol](10)
    obs = np.zeros(3, np.float32)
    a.add(Batch(obs=obs, act=1, rew=1.0, terminated=False, truncated=False, obs_next=obs, info={}))
    a.add(
        Batch(
            obs=obs,
            act=np.int64(1),
            rew=np.float32(1.0),
            terminated=np.bool_(False),
            truncated=np.bool_(False),
            obs_next=obs,
            info=Batch(),
        )
    )
    a.add(
        Batch(
            obs=obs,
            act=np.array(1),
            rew=np.array(1.0),
            terminated=np.array(False),
            truncated=np.array(False),
            obs_next=obs,
            info=Batch(),
        )
    )
    s, _ = a.sample(3)
    for row in s:
        a.add(row)
    a.add(s[0])
    b = ReplayBuffer[StepP](10)
    b.add(Batch(obs=obs, act=1, rew=1.0, terminated=False, truncated=False, obs_next=obs))
    b.add(
        Batch(obs=obs, act=np.int64(1), rew=np.float64(1.0), terminated=np.bool_(False), truncated=False, obs_next=obs)
    )
    t, _ = b.sample(3)
    b.add(t[0])
    for step in t:
        b.add(step)
        vec3(step.obs)
        print((step.obs @ W).shape, float(step.rew), int(step.act), bool(step.terminated))


def use_of_rows() -> None:
    a = Joint(obs=np.zeros((4, 3)), act=np.zeros(4, np.int64))
    one = a[0]
    vec3(one.obs)
    print(one.obs @ W, one.obs[0], one.obs.shape[0], float(one.act), one.obs + np.zeros(3))
    for row in a:
        vec3(row.obs)
        print(row.obs @ W, row.obs + np.zeros(3))
    made = Joint(obs=np.zeros(3), act=np.array(1))
    vec3(made.obs)
    print(made.obs @ W, made.obs + np.zeros(3), made.obs[0])
    i = np.int64(1)
    two = a[i]
    vec3(two.obs)
    last = a[-1]
    vec3(last.obs)
    back = Joint.stack([one, made, two])
    print(back.obs.shape, (back.obs @ W).shape)
    rows = []
    for _ in range(3):
        rows.append(Joint(obs=np.zeros(3), act=np.array(1)))
    print(Joint.stack(rows).obs.shape)
    again = stack(rows)
    print(again.obs.shape, again.act + np.zeros(3))
    a[0] = made
    a[1] = Joint(obs=np.ones(3), act=np.array(2))
    a[[1, 2]] = Joint(obs=np.ones(3), act=np.array(2))
    print(a.obs[0])
    joined = cat([a, Joint.stack(rows)])
    print(joined.obs.shape)


def make(x: Float[np.ndarray, "3"]) -> Joint:
    return Joint(obs=x, act=np.array(0))


def tensors() -> None:
    t = Tokens(ids=torch.zeros(5, dtype=torch.int64), mask=torch.ones(5, dtype=torch.bool), score=torch.tensor(0.5))
    u = Tokens(ids=torch.zeros(5, dtype=torch.int64), mask=torch.ones(5, dtype=torch.bool), score=torch.tensor(0.5))
    both = Tokens.stack([t, u])
    print(both.ids.shape, stack([t, u]).score.shape)
    items = [
        Tokens(ids=torch.zeros(n, dtype=torch.int64), mask=torch.ones(n, dtype=torch.bool), score=torch.tensor(1.0))
        for n in (3, 3)
    ]
    print(stack(items).ids.shape)
    print(t.ids[0], t.mask.sum())
    whole = Tokens(
        ids=torch.zeros(2, 5, dtype=torch.int64), mask=torch.ones(2, 5, dtype=torch.bool), score=torch.zeros(2)
    )
    whole[0] = t
    whole[0] = {"ids": torch.zeros(5, dtype=torch.int64), "mask": torch.ones(5, dtype=torch.bool), "score": 1.0}
    print(whole[0].ids.shape)
    for row in whole:
        print(row.ids.sum(), row.score.item())


def rollout() -> None:
    obs = np.zeros(3, np.float32)
    r = RolloutBatch(
        obs=obs,
        act=np.array(1),
        rew=np.array(1.0),
        terminated=np.array(False),
        truncated=np.array(False),
        obs_next=obs,
        info=Batch(),
    )
    q = r.copy()
    s = stack([r, q])
    print(s.obs.shape, s.rew + np.zeros(2))
    print(RolloutBatch.stack([r, r, q]).obs.shape)
    buf = ReplayBuffer[RolloutBatch](10)
    buf.add(r)
    buf.add(q)
    buf.add(s[0])
    buf.add(s[np.int64(0)])
    for row in s:
        buf.add(row)
        buf.add(
            RolloutBatch(
                obs=row.obs,
                act=row.act,
                rew=row.rew,
                terminated=row.terminated,
                truncated=row.truncated,
                obs_next=row.obs_next,
                info=row.info,
            )
        )
    n = np.float64(3)
    buf.add(
        RolloutBatch(
            obs=obs,
            act=np.asarray(1),
            rew=np.asarray(n),
            terminated=np.asarray(False),
            truncated=np.asarray(False),
            obs_next=obs,
            info=Batch(),
        )
    )


def plain_rows() -> None:
    b = Batch(x=np.zeros((3, 2)), y=np.zeros(3))
    b[0] = {"x": np.zeros(2), "y": 1.0}
    b[0] = Batch(x=np.zeros(2), y=1)
    b[1] = b[0]
    print(Batch.stack([b[0], b[1]]).x.shape, stack([b[0], {"x": np.zeros(2), "y": 1.0}]).y.shape)
    c = stack([Batch(x=1, y=2.0), Batch(x=np.int64(1), y=np.float32(2))])
    print(c.x + 1, c.y.mean(), c.x[0])
    d = Batch.from_rows([{"x": 1, "y": 2.0}, {"x": np.int64(1), "y": np.float32(1)}])
    print(d.x.mean(), d.y.shape)
    rows = [Batch(x=i, y=float(i)) for i in range(3)]
    e = stack(rows)
    print(e.x.mean(), e.y.shape)
    f = Batch.stack(rows)
    print(f.x.mean(), f.y.shape, f.y[0])


if __name__ == "__main__":
    protocols()
    use_of_rows()
    make(np.zeros(3))
    tensors()
    rollout()
    plain_rows()
