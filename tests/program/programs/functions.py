"""Batches that go through functions, closures, partial functions, decorators and generators."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading

import numpy as np

from typedbatch import Batch


def make():
    return Batch(obs=np.zeros(3), act=np.zeros(3))


def loss(batch):
    return batch.rew.mean()  # E: rew


loss(make())


def with_rew(batch):
    batch.rew = np.ones(3)
    return batch


with_rew(make()).rew
functools.partial(with_rew)(make()).done  # E: done


def scaled(factor):
    def apply(batch):
        batch.scaled = batch.obs * factor
        return batch

    return apply


scaled(2)(make()).scaled
scaled(2)(make()).scale  # E: scale


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
def wrapped():
    return Batch(obs=1)


wrapped().act  # E: act


def minibatches(batch, size):
    for start in range(0, len(batch), size):
        part = batch[start : start + size]
        part.weight = np.ones(size)
        yield part


for part in minibatches(make(), 2):
    part.weight
    part.weights  # E: weights


@contextlib.contextmanager
def recording():
    record = Batch(step=0)
    yield record
    record.step


with recording() as record:
    record.steps  # E: steps
    record.step


async def fetch():
    return Batch(obs=1)


async def run():
    batch = await fetch()
    batch.act  # E: act


asyncio.run(run())


def work(batch):
    batch.act  # E: act


threading.Thread(target=work, args=(Batch(obs=1),)).start()


def factorial(batch, n):
    return batch if n == 0 else factorial(batch, n - 1)


factorial(make(), 3).anything_at_all


def merged(**fields):
    return Batch(**fields)


merged(obs=1, act=2).act
merged(obs=1, act=2).rew  # E: rew

kept = make()
np.thing(functools.partial(with_rew, batch=kept))
kept.rew

table = {"a": make, "b": lambda: Batch(rew=1)}
table["a"]().rew  # E: rew
table["b"]().rew
list(map(loss, [with_rew(make())]))
sorted([make()], key=lambda one: one.priority)  # E: priority


class Nested:
    def __init__(self):
        self.batch, self.last = make(), None

    def first(self):
        self.second()

    def second(self):
        self.third()

    def third(self):
        self.fourth()

    def fourth(self):
        self.fifth()

    def fifth(self):
        self.sixth()

    def sixth(self):
        self.seventh()

    def seventh(self):
        self.eighth()

    def eighth(self):
        self.ninth()

    def ninth(self):
        self.tenth()

    def tenth(self):
        self.eleventh()

    def eleventh(self):
        self.twelfth()

    def twelfth(self):
        self.thirteenth()

    def thirteenth(self):
        self.fourteenth()

    def fourteenth(self):
        self.fifteenth()

    def fifteenth(self):
        global deep
        deep = Batch(rew=1)
        self.batch.rew = 1
        self.last = Batch(rew=1)


deep = make()
nested = Nested()
nested.first()
nested.batch.rew
nested.last.rew
deep.rew
make().rew  # E: rew


def wait_and_work(batch, ready):
    ready.wait()
    batch.rew
    batch.done  # E: done


def start():
    batch, ready = Batch(obs=1), threading.Event()
    threading.Thread(target=wait_and_work, args=(batch, ready)).start()
    batch.rew = 1
    ready.set()


start()
