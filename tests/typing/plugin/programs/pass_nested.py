"""Dict observations, goals and hindsight, recurrent states, several environments: batches in batches."""

from collections.abc import Iterator
from typing import Any, Protocol, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import (
    ActStateBatchProtocol,
    Batch,
    BatchProtocol,
    ObsBatchProtocol,
    RecurrentStateBatch,
    RolloutBatchProtocol,
    cat,
    stack,
)

Array = NDArray[Any]


class Goal(BatchProtocol, Protocol):
    """An observation with the goal that was reached and the one that was set."""

    @property
    def observation(self) -> Array: ...
    @property
    def achieved_goal(self) -> Array: ...
    @property
    def desired_goal(self) -> Array: ...


class Camera(BatchProtocol, Protocol):
    """What the robot sees and where it is."""

    @property
    def cam(self) -> Array: ...
    @property
    def pos(self) -> Array: ...


def see(batch: ObsBatchProtocol[Array, Camera]) -> tuple[int, ...]:
    return batch.obs.cam.shape


def relabel(batch: RolloutBatchProtocol[Array, Goal]) -> Array:
    distance: Array = np.linalg.norm(batch.obs.achieved_goal - batch.obs.desired_goal, axis=-1)
    return distance


def goal_obs(n: int) -> Goal:
    return Batch(observation=np.zeros((n, 3)), achieved_goal=np.zeros((n, 2)), desired_goal=np.ones((n, 2)))


def hindsight(n: int) -> Array:
    b = Batch(obs=goal_obs(n), obs_next=goal_obs(n), act=np.zeros(n), rew=np.zeros(n), info={"success": [False] * n})
    b.terminated = b.truncated = np.zeros(n, bool)
    relabel(b)
    new = Batch(observation=b.obs.observation, achieved_goal=b.obs.achieved_goal)
    new.desired_goal = b.obs_next.achieved_goal
    b.obs = new
    b.info.success = np.ones(n, bool)
    b.info["relabelled"] = np.ones(n, bool)
    b.rew = -np.linalg.norm(b.obs.achieved_goal - b.obs.desired_goal, axis=-1)
    print(b.info.success.all(), b.info.relabelled, b["info"]["success"])
    return relabel(b)


def from_literals() -> None:
    b = Batch(obs={"cam": np.zeros((2, 8, 8)), "pos": [[0.0], [1.0]]}, info=dict(id=[1, 2]))
    see(b)
    print(b.obs.cam.mean(), b.obs.pos, b.info.id)
    c = Batch({"obs": {"cam": np.zeros((2, 8, 8)), "pos": np.zeros(2), "deep": {"er": {"x": [1, 2]}}}, "info": {}})
    see(c)
    see(c[:1])
    print(c.obs.deep.er.x, c["obs"]["deep"]["er"]["x"], c.obs.deep["er"].x)
    c.obs.deep.er.y = c.obs.deep.er.x + 1
    del c.obs.deep.er.x
    print(c.obs.deep.er.y)
    d = Batch(dict(obs=dict(cam=np.zeros(2), pos=np.zeros(2)), info=Batch()))
    see(d)
    e = Batch({**{"obs": {"cam": np.zeros(2)}}, "info": Batch()})
    e.obs.pos = e.obs.cam
    see(e)


def rows_of_dicts() -> None:
    b = Batch([{"obs": {"cam": np.zeros(4), "pos": 0.0}, "rew": 1.0}, {"obs": {"cam": np.ones(4), "pos": 1.0}}])
    print(b.obs.cam, b.obs.pos, b.rew)
    c = Batch(steps=[{"a": 1}, {"a": 2, "b": 3}], shapes=[[1, 2], [3, 4]], mixed=[None, "x"])
    print(c.steps.a, c.steps.b, c.shapes.shape, c.mixed.tolist())
    d = Batch(obs=[Batch(cam=np.zeros(4)), Batch(cam=np.ones(4))])
    print(d.obs.cam.shape)
    e = Batch(infos=[{"TimeLimit": {"truncated": False}} for _ in range(2)])
    print(e.infos)
    rows = [Batch(a=1.0), Batch(a=2.0)]
    f = Batch(rows=rows).copy()
    print(f.rows.a, rows.copy()[0].a)


def partly(flag: bool) -> Array:
    b = Batch(obs={"pos": np.zeros(2)}, info=Batch())
    if flag:
        b.obs.cam = np.zeros((2, 8))
    else:
        b.obs["cam"] = np.ones((2, 8))
    see(b)
    b.obs.update(vel=np.zeros(2), touch=[0, 1])
    print(b.obs.vel, b.obs.touch)
    b.obs.cam = b.obs.cam[..., None]
    total: Array = b.obs.cam + b.obs.pop("vel")[:, None, None]
    return total


def reserved() -> Array:
    b = Batch(obs=Batch(), info=Batch())
    b.obs.cam = np.zeros(2)
    b.obs.pos = np.zeros(2)
    see(b)
    b.policy = Batch()
    b.policy.hidden = np.zeros((2, 3))
    print(b.policy.hidden)
    return b.obs.pos


class Recurrent(nn.Module):
    """A recurrent policy that keeps its state between steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.state = Batch(hidden=torch.zeros(1, 4), cell=torch.zeros(1, 4))

    def step(self, obs: Tensor, state: RecurrentStateBatch[Tensor] | None) -> ActStateBatchProtocol[Tensor]:
        given = (state.hidden, state.cell) if state is not None else None
        hidden, cell = self.cell(obs, given)
        out = Batch(act=hidden.argmax(-1))
        out.state = Batch(hidden=hidden, cell=cell)
        self.state = out.state
        self.state.steps = 1
        return out

    def unroll(self, steps: int) -> Tensor:
        state = Batch(hidden=torch.zeros(2, 4), cell=torch.zeros(2, 4))
        outs = []
        for _ in range(steps):
            out = Batch(hidden=state.hidden, step=self.step(torch.zeros(2, 3), state))
            state.hidden, state.cell = self.cell(torch.zeros(2, 3), (state.hidden, state.cell))
            outs.append(out)
        print(self.state.hidden.shape, self.state.steps)
        return stack([Batch(h=out.hidden) for out in outs]).h

    def masked(self, done: Tensor) -> Tensor:
        state = Batch(hidden=torch.ones(2, 4), cell=torch.ones(2, 4))
        state.hidden[done] = 0
        state.hidden, state.cell = (x * (~done)[:, None] for x in (state.hidden, state.cell))
        detached = state.to_numpy()
        print(detached.hidden.tolist())
        first, second = state.split(1, shuffle=False)
        print(first.hidden, second.cell)
        return state.cell


def environments(count: int, steps: int) -> float:
    envs = [Batch(obs=np.zeros(3), id=number, ret=0.0) for number in range(count)]
    taken = []
    for step in range(steps):
        for env in envs:
            env.ret = env.ret + 1.0
            env.obs = env.obs + step
        now = stack(envs)
        assert_type(now.obs.sum(), Any)
        now.act = now.obs.argmax(-1)
        now.info = {"env_id": now.id, "step": [step] * count}
        print(now.info.env_id, now.info.step, now[0].act, now[:, None].obs.shape)
        taken.append(now)
    whole = cat(taken)
    whole.done = np.zeros(len(whole.act), bool)
    for number in range(count):
        mine = whole[whole.id == number]
        print(mine.act, mine.info.step, mine.done)
    ready = np.flatnonzero(whole.done)
    print(whole[ready].obs, whole[list(range(2))].id, whole[-1].ret)
    return float(sum(env.ret for env in envs))


def walk(n: int) -> Iterator[Batch]:
    b = Batch(obs={"cam": np.zeros((n, 2)), "pos": np.zeros(n)}, rew=np.zeros(n))
    for row in b:
        print(row.obs.cam, row.rew)
        yield row.obs
    for i, mini in enumerate(b.split(1)):
        print(i, mini.obs.pos)
        yield mini
    pairs = zip(b, b.split(1, shuffle=False), strict=True)
    print(sum(1 for _ in pairs), [row.obs.pos for row in b], next(iter(b)).rew)


def names() -> list[str]:
    b = Batch(obs={"cam": np.zeros(2)}, act=[0, 1], items_seen=3)
    for name, value in b.items():
        print(name, value)
    b["items"] = [1, 2]
    b["not an identifier"] = 1.0
    for name in ("obs", "act"):
        print(b[name], b.get(name))
    print(b["items"], b["not an identifier"], b.get("items"), b.get("nothing"), b.get("nothing", 0))
    assert b.allclose(b.copy())
    return sorted(b.keys())


def main() -> None:
    assert len(hindsight(3)) == 3
    from_literals()
    rows_of_dicts()
    partly(True), partly(False), reserved(), environments(2, 3), list(walk(2)), names()
    policy = Recurrent()
    assert policy.step(torch.zeros(2, 3), None).act.shape == (2,)
    policy.unroll(2), policy.masked(torch.tensor([True, False]))


main()
