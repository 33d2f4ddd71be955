"""Dict observations, goals, recurrent states and several environments, with slips inside the nested batches."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol, ObsBatchProtocol, RecurrentStateBatch, RolloutBatchProtocol, cat, stack

Array = NDArray[Any]


class Camera(BatchProtocol, Protocol):
    @property
    def cam(self) -> Array: ...
    @property
    def pos(self) -> Array: ...


def see(batch: ObsBatchProtocol[Array, Camera]) -> None: ...
def flat(batch: RolloutBatchProtocol) -> None: ...
def remember(state: RecurrentStateBatch[Tensor]) -> None: ...


def literals() -> None:
    b = Batch(obs={"cam": np.zeros((2, 8, 8)), "pos": [[0.0], [1.0]]}, info=dict(id=[1, 2]))
    see(b)
    print(b.obs.camera)  # E: misspelt-nested: camera
    print(b.obs["poss"])  # E: misspelt-nested-item: poss
    print(b["obs"].velocity)  # E: no-such-nested: velocity
    print(b["info"]["ids"])  # E: misspelt-nested-item: ids
    print(b.info.id.append(1))  # E: list-method-on-array: append
    print(b.obs.mean())  # E: array-method-on-batch: mean
    print(b.obss.cam)  # E: misspelt-outer: obss
    c = Batch({"obs": {"cam": np.zeros(2), "deep": {"er": {"x": 1}}}, "info": {}})
    print(c.obs.deep.er.x)
    print(c.obs.deep.er.y)  # E: misspelt-deep: y
    print(c.obs.deeep.er)  # E: misspelt-deep: deeep
    see(c)  # E: missing-nested: obs
    c.obs.pos = np.zeros(2)
    see(c)
    c.obs.deep.er.y = 2
    print(c.obs.deep.er.y, c.obs.deep.er.z)  # E: misspelt-deep: z
    del c.obs.pos
    print(c.obs.pos)  # E: read-after-delete: pos
    see(c)
    d = Batch(dict(obs=dict(cam=np.zeros(2)), act=1))
    print(d.act, d.obs.cam)
    print(d.acts)  # E: misspelt-of-dict: acts
    print(d.obs.cams)  # E: misspelt-of-dict: cams


def rows_of_dicts() -> None:
    b = Batch([{"obs": {"cam": np.zeros(4), "pos": 0.0}, "rew": 1.0}, {"obs": {"cam": np.ones(4)}, "rew": 0.0}])
    print(b.obs.cam, b.rew)
    print(b.obs.cma)  # E: misspelt-of-rows: cma
    print(b.reward)  # E: misspelt-of-rows: reward
    c = Batch(steps=[{"a": 1}, {"a": 2, "b": 3}])
    print(c.steps.a, c.steps.b)
    print(c.steps.aa)  # E: misspelt-of-list: aa
    d = Batch(obs=[Batch(cam=np.zeros(4)), Batch(cam=np.ones(4))])
    print(d.obs.cam)
    print(d.obs.pos)  # E: no-such-nested: pos


def partly(flag: bool) -> None:
    b = Batch(obs={"pos": np.zeros(2)}, info=Batch())
    if flag:
        b.obs.cam = np.zeros((2, 8))
    print(b.obs.pos)
    print(b.obs.cam)  # E: maybe-nested: cam
    see(b)
    b.obs = {"cam": np.zeros(2)}
    print(b.obs.cam)
    print(b.obs.pos)  # E: replaced-nested: pos
    b.obs = np.zeros(2)
    print(b.obs.mean())
    print(b.obs.cam)  # E: array-no-longer-batch: cam
    see(b)  # E: array-for-nested: obs


def reserved() -> None:
    b = Batch(obs=Batch(), info=Batch())
    print(b.obs.cam)  # E: read-of-reserved: cam
    b.obs.cam = np.zeros(2)
    print(b.obs.cam)
    see(b)  # E: missing-nested: obs
    print(b.info.env_id)  # E: read-of-reserved: env_id


def recurrent() -> Tensor:
    state = Batch(hidden=torch.zeros(2, 4))
    remember(state)  # E: missing-field: cell
    state.cell = torch.zeros(2, 4)
    remember(state)
    remember(state.to_numpy())  # E: wrong-stage
    out = Batch(act=torch.zeros(2), state=state)
    print(out.state.hidden, out.state.cell)
    print(out.state.cells)  # E: misspelt-nested: cells
    remember(out.state)
    remember(out)  # E: outer-for-inner
    for row in state:
        print(row.hidden, row.cell)
        print(row.h)  # E: misspelt-in-row: h
    first, second = state.split(1, shuffle=False)
    print(first.hidden, second.cell)
    print(second.hiden)  # E: misspelt-in-target: hiden
    return state.logits  # E: no-such-field: logits


def environments(count: int, steps: int) -> None:
    envs = [Batch(obs=np.zeros(3), id=number) for number in range(count)]
    taken = []
    for step in range(steps):
        now = stack(envs)
        now.act = now.obs.argmax(-1)
        now.info = {"env_id": now.id, "step": [step] * count}
        print(now.info.env_id, now.info.step)
        print(now.info.envid)  # E: misspelt-nested: envid
        print(now.actions)  # E: misspelt-of-stack: actions
        taken.append(now)
    whole = cat(taken)
    print(whole.obs, whole.act, whole.info.step)
    print(whole.observ)  # E: misspelt-of-cat: observ
    mine = whole[whole.id == 0]
    print(mine.act, mine.info.step)
    print(mine.info.steps_)  # E: misspelt-nested-of-mask: steps_
    print(whole[0].obs, whole[0].obz)  # E: misspelt-of-row: obz
    print(whole[list(range(2))].idd)  # E: misspelt-of-rows: idd
    for mini in whole.split(2):
        print(mini.info.env_id)
        print(mini.info.env_idd)  # E: misspelt-nested-in-split: env_idd
    flat(whole)  # E: too-few-fields


def nested_as_flat(n: int) -> None:
    b = Batch(obs={"cam": np.zeros(n)}, obs_next={"cam": np.zeros(n)}, act=[0] * n, rew=[0.0] * n, info=Batch())
    b.terminated = b.truncated = [False] * n
    flat(b)  # E: nested-for-array: obs
    b.obs = b.obs.cam
    flat(b)
    b.obs_next = b.obs_next.cam
    flat(b)


def names() -> None:
    b = Batch(obs={"cam": np.zeros(2)}, act=[0, 1])
    b["items"] = [1, 2]
    b["not an identifier"] = 1.0
    print(b["items"], b["not an identifier"])
    print(b["not identified"])  # E: misspelt-item: not identified
    print(b["itemz"])  # E: misspelt-item: itemz
