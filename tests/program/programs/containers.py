"""Batches in lists, dicts, tuples, queues and comprehensions."""

from __future__ import annotations

import collections
import copy
import queue

import numpy as np

from typedbatch import Batch, cat, stack


def make():
    return Batch(obs=np.zeros(3), act=np.zeros(3))


steps = []
for _ in range(8):
    steps.append(make())
stack(steps).rew  # E: rew
steps[0].obs

table = {"one": make()}
table["two"] = Batch(rew=np.ones(3))
table["one"].rew  # E: rew
table["two"].rew
for name, value in table.items():
    value.anything  # E: anything

first, second = make(), Batch(rew=1)
first.rew  # E: rew
second.rew

waiting = queue.Queue()
waiting.put(make())
waiting.get().done  # E: done

recent = collections.deque(maxlen=3)
recent.append(make())
recent[0].done  # E: done

by_env = collections.defaultdict(list)
by_env[0].append(make())
by_env[0][0].done  # E: done

doubled = {name: value * 2 for name, value in make().items()}
Batch(doubled).obs
Batch(doubled).rew  # E: rew

fields = ("obs", "act")
picked = Batch({name: np.zeros(3) for name in fields})
picked.act
picked.rew  # E: rew
for name in fields:
    make()[name]
for name in ("obs", "rew"):
    make()[name]  # E: rew

copied = copy.deepcopy(make())
copied.rew = 1
copied.rew
cat([make(), copied]).rew  # E: rew

batch = make()
batch.pop("act")
batch.act  # E: act
del batch.obs
batch.obs  # E: obs
batch.update(rew=1, info={"length": 3})
batch.info.length
batch.info.len_gth  # E: len_gth
batch["rew"]
batch["reward"]  # E: reward
batch.setdefault("weight", 1)
batch.weight
setattr(batch, "done", 1)
batch.done
np.exp(batch).done
np.exp(batch).don  # E: don
(batch + 1).rew
batch.to_torch().rwe  # E: rwe
batch.clear()
batch.rew  # E: rew
