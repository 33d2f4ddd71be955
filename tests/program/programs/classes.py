"""Batches in attributes, which methods set in the order of time."""

from __future__ import annotations

import dataclasses
import functools
import queue
import threading
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from typedbatch import Batch


class Learner:
    def __init__(self):
        self.batch = None
        self.stats = Batch(loss=0.0)

    def prepare(self):
        self.batch = Batch(obs=np.zeros(3), act=np.zeros(3))

    def update(self):
        if self.batch is None:
            return 0.0
        self.stats.loss = self.batch.obs.mean()
        return self.batch.rew.mean()  # E: rew

    def report(self):
        return self.stats.losses  # E: losses


learner = Learner()
learner.prepare()
learner.update()
learner.report()


class Source(ABC):
    @abstractmethod
    def draw(self) -> Batch: ...

    def mean(self):
        return self.draw().rew.mean()  # E: rew


class Constant(Source):
    def draw(self):
        return Batch(obs=np.zeros(3))


class Paid(Source):
    def draw(self):
        return Batch(obs=np.zeros(3), rew=np.ones(3))


Constant().mean()
Paid().mean()


class Base:
    def make(self):
        return Batch(obs=np.zeros(3))


class Derived(Base):
    def make(self):
        batch = super().make()
        batch.rew = np.ones(3)
        return batch


Derived().make().rew
Base().make().rew  # E: rew


@dataclasses.dataclass
class State:
    step: int = 0
    batch: Batch = dataclasses.field(default_factory=lambda: Batch(obs=np.zeros(3)))


State().batch.obs
State().batch.rew  # E: rew
State(batch=Batch(rew=1)).batch.rew


class Lazy:
    @functools.cached_property
    def batch(self):
        return Batch(obs=np.zeros(3))

    @property
    def first(self):
        return self.batch[0]

    @classmethod
    def default(cls):
        return cls()

    @staticmethod
    def empty():
        return Batch(obs=np.zeros(0))


Lazy.default().batch.obs
Lazy.default().first.act  # E: act
Lazy.empty().rew  # E: rew


class Model:
    def forward(self, obs):
        return Batch(logits=obs, state=None)


Model()(np.zeros(3)).logits
Model()(np.zeros(3)).act  # E: act


class Changed:
    def __init__(self):
        self.batch = Batch(obs=np.zeros(3))

    def extend(self):
        self.batch.rew = np.ones(3)

    def read(self):
        return self.batch.rew


changed = Changed()
changed.extend()
changed.read()


class Stack:
    def __init__(self):
        self._items = [Batch(obs=np.zeros(3))]

    def __getitem__(self, index):
        return self._items[index]

    def __iter__(self):
        return iter(self._items)

    def __enter__(self):
        return self._items[0]

    def __exit__(self, *_):
        self._items[0].closed = True


Stack()[0].rew  # E: rew
for batch in Stack():
    batch.rew  # E: rew
with Stack() as entered:
    entered.rew  # E: rew


class Metric:
    by_name: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, name="", **options):
        super().__init_subclass__(**options)
        cls.by_name[name] = cls


class Return(Metric, name="return"):
    def compute(self):
        return Batch(mean=np.ones(3))


Metric.by_name["return"]().compute().std  # E: std


MODELS = {}


def register(name):
    def add(cls):
        MODELS[name] = cls
        return cls

    return add


@register("linear")
class Linear:
    def predict(self):
        return Batch(mean=np.ones(3))


Linear().predict().std  # E: std
MODELS["linear"]().predict().std  # E: std
flagged = Batch()
if "linear" in MODELS:
    flagged.loss = np.ones(3)
flagged.loss


class Rows:
    def __init__(self, batch):
        self.batch = batch

    def view(self, index):
        out = Rows.__new__(Rows)
        out.batch = self.batch[index]
        return out


Rows(Batch(obs=np.zeros(3))).view(slice(2)).batch.rew  # E: rew


class Worker(threading.Thread):
    def __init__(self, out):
        super().__init__(daemon=True)
        self.out = out

    def run(self):
        self.out.put(Batch(obs=np.zeros(3)))


made = queue.Queue()
Worker(made).start()
made.get().rew  # E: rew


class Waiting(threading.Thread):
    def __init__(self):
        super().__init__()
        self.is_ready, self.batch = threading.Event(), Batch(obs=np.zeros(3))

    def run(self):
        self.is_ready.wait()
        self.batch.rew


waiting = Waiting()
waiting.start()
waiting.batch.rew = np.zeros(3)
waiting.is_ready.set()
