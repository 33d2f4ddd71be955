"""Objects that stand for several, as an element of a list of any length: one of them is changed, and not the others."""

from __future__ import annotations

import collections
import sys

import numpy as np

from typedbatch import Batch


def make():
    return Batch(obs=np.ones(2), rew=np.ones(2))


several = [make() for _ in range(4)]
several[0].pop("rew")
several[1].rew
several[1].act  # E: act
del several[2]["obs"]
several[3].obs

by_name = {name: make() for name in sys.argv}
by_name[sys.argv[0]].clear()
by_name[sys.argv[1]].rew
by_name[sys.argv[1]].act  # E: act

queue = collections.deque(make() for _ in range(3))
del queue.popleft().rew
queue[0].rew


class Slot:
    def __init__(self):
        self.batch = make()


slots = [Slot() for _ in range(3)]
slots[0].batch = Batch(obs=np.ones(2))
slots[1].batch.rew
slots[1].batch.act  # E: act

parts = list(make().split(1))
parts[0].pop("rew")
parts[1].rew
mapped = list(map(Batch, [{"obs": 1}] * int(sys.argv[2])))
mapped[0].pop("obs")
mapped[1].obs

several = [make() for _ in range(4)]
several[0].update(rew=Batch(mean=1))
several[1].rew.mean()
several[1]["obs"] = Batch(image=1)
several[2].obs.mean()

pairs = [(name, make()) for name in sys.argv]
pairs[0][1].pop("rew")
pairs[1][1].rew
listed = list(zip(sys.argv, [make(), make()]))
nested = [Batch(obs=Batch(image=1)) for _ in sys.argv]
nested[0].obs.pop("image")
nested[1].obs.image
