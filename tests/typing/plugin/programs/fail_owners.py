"""Plain batches that live in modules, objects, closures and lists, and names that none of their writers uses."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, RolloutBatchProtocol

Array = NDArray[Any]

DEFAULTS = Batch(gamma=0.99, lam=0.95, net={"width": 64})
STATS = Batch(episodes=0)
GIVEN = Batch(seed=0)
OPEN: Batch = Batch(step=0)

STATS.reward = 0.0
print(DEFAULTS.gama)  # E: misspelt-of-module: gama


def learn(batch: RolloutBatchProtocol) -> None: ...
def look(batch: BatchProtocol) -> None: ...


def read_module() -> None:
    print(DEFAULTS.gamma, DEFAULTS.net.width, STATS.episodes, STATS.reward, STATS.length)
    print(DEFAULTS.gmma)  # E: misspelt-of-module: gmma
    print(DEFAULTS.net.widht)  # E: misspelt-nested-of-module: widht
    print(STATS.rewrad)  # E: misspelt-of-module: rewrad
    STATS.length = 3
    STATS["steps"] = 5
    print(STATS.steps, STATS.stepps)  # E: misspelt-of-module: stepps


def hand_on_module() -> None:
    look(GIVEN)
    print(GIVEN.seed, list(GIVEN.keys()))
    print(GIVEN.sede)  # E: misspelt-of-module-handed-on: sede
    learn(GIVEN)  # E: module-batch-as-rollout


def declared_open() -> None:
    print(OPEN["step"])
    print(OPEN.step)
    OPEN.step = 3
    print(OPEN.step)
    print(OPEN.stpe)  # E: misspelt-of-plain: stpe


class Collector:
    """Keeps the transition of the moment."""

    def __init__(self, envs: int) -> None:
        self.now = Batch(obs=np.zeros((envs, 4)), act=np.zeros(envs, int))
        self.log = Batch(returns=[], lengths=[])
        self.given = Batch(seed=0)
        self.plain: Batch = Batch(step=0)
        print(self.now.obss)  # E: misspelt-of-self: obss

    def act(self) -> None:
        self.now.act = self.now.obs.argmax(-1)
        self.now.logits = self.now.obs
        print(self.now.logist)  # E: misspelt-of-self: logist
        print(self.now.act, self.log.returns, self.log.retuns)  # E: misspelt-of-self: retuns

    def step(self) -> None:
        print(self.now.logits, self.now.hidden)
        self.now.hidden = self.now.obs
        print(self.now.obs.dim())  # E: tensor-method-on-array: dim
        print(self.plain.step)
        look(self.given)
        print(self.given.sede)  # E: misspelt-of-self-handed-on: sede
        learn(self.given)
        now = self.now
        print(now.obs, now.obz)  # E: misspelt-of-alias: obz


def lists_of_batches() -> None:
    episodes = [Batch(rew=np.ones(2)), Batch(rew=np.ones(3))]
    print(episodes[0].rew)
    print(episodes[0].reward_sum)  # E: misspelt-of-item: reward_sum
    for episode in episodes:
        episode.ret = episode.rew.sum()
        print(episode.ret)
        print(episode.rett)  # E: misspelt-of-item: rett
    first, second = Batch(x=1.0), Batch(y=2.0)
    print(first.x, second.y)
    print(first.yy)  # E: misspelt-of-target: yy
    pair = (Batch(x=1.0), Batch(y=2.0))
    print(pair[0].x, pair[1].y)
    print(pair[1].zz)  # E: misspelt-of-tuple: zz
    for one, other in zip(episodes, episodes, strict=True):
        print(one.rew, other.rww)  # E: misspelt-of-zip: rww
    named = {"train": Batch(loss=1.0), "test": Batch(loss=2.0)}
    print(named["train"].loss)
    print(named["train"].lossy)  # E: misspelt-of-dict: lossy


def functions_in_functions() -> None:
    stats = Batch(count=0)

    def bump(by: int) -> None:
        stats.count += by
        stats.last = by
        print(stats.cuont)  # E: misspelt-in-closure: cuont

    bump(1)
    print(stats.last, stats.count)
    print(stats.lsat)  # E: misspelt-after-closure: lsat


def copies() -> None:
    b = Batch(obs=np.zeros(3), info={"id": [1, 2, 3]})
    c = b.copy()
    c.act = np.ones(3)
    print(c.act, c.obs)
    print(b.act)  # E: set-in-copy-only: act
    d = Batch(b, rew=c.act)
    print(d.rew, d.obs, d.info.id)
    print(d.act)
    print(b.rew)  # E: set-in-copy-only: rew
    e = Batch(b, copy=True)
    print(e.copied)  # E: misspelt-of-copy: copied
    del e.obs
    print(b.obs)
    print(e.obs)  # E: deleted-in-copy: obs
    f = b[[0, 1]]
    print(f.info.id)
    print(f.info.idx)  # E: misspelt-nested-of-rows: idx
