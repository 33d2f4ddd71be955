"""Right programs, of which nothing is reported: idioms by which a field, a name or a batch is another than it seems."""

from __future__ import annotations

import argparse
import sys

import numpy as np

from typedbatch import Batch


def exits(flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    else:
        sys.exit(1)
    return batch.adv


def need(flag):
    if not flag:
        raise ValueError("flag")


def raises_in_a_call(flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    need(flag)
    return batch.adv


def ends_by_an_error(parser: argparse.ArgumentParser, flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    else:
        parser.error("flag")
    return batch.adv


exits(len(sys.argv) > 0)
raises_in_a_call(len(sys.argv) > 0)
ends_by_an_error(argparse.ArgumentParser(), len(sys.argv) > 0)


# What changes in place


class Settings:
    def __init__(self):
        self.key = "obs"
        self.more = {"obs": np.zeros(2)}

    def extend(self):
        self.more |= {"adv": np.ones(2)}


settings = Settings()
held = settings.more
settings.extend()
settings.key += "_next"
print(Batch(held).adv, Batch(obs_next=np.zeros(2))[settings.key])


class Fill:
    def __rrshift__(self, batch):
        batch.adv = np.ones(2)
        return batch


print((Batch(obs=np.zeros(2)) >> Fill()).adv)


def fill(batch, scale=1.0):
    batch.adv = scale * np.ones(2)


unfilled = Batch(obs=np.zeros(2))
fill(**({"batch": unfilled} if len(sys.argv) > 0 else {"batch": unfilled, "scale": 2.0}))
print(unfilled.adv)

table = {"x": Batch(adv=np.ones(2))}
table.update({"x": Batch(obs=np.zeros(2))} if len(sys.argv) > 9 else {"y": Batch()})
print(table["x"].adv)

tables = [{} for _ in range(3)]
tables[0]["adv"] = np.ones(2)
for key in tables[1]:
    print(Batch(obs=np.zeros(2))[key])

if True == 1:
    unfilled.ret = np.ones(2)
print(unfilled.ret)

called = Batch(obs=np.zeros(2))


def set_adv():
    called.adv = np.ones(2)


def nothing_1():
    pass


def nothing_2():
    pass


def nothing_3():
    pass


def nothing_4():
    pass


def nothing_5():
    pass


def nothing_6():
    pass


every = [nothing_1, nothing_2, nothing_3, nothing_4, nothing_5, nothing_6, set_adv]
every[6 * len(sys.argv)]()
print(called.adv)


# Defaults, as they are where the function is defined


def remembered(fills=False, memory=Batch(obs=np.zeros(2))):
    if fills:
        memory.adv = np.ones(2)
    return memory


remembered(True)
print(remembered().adv)

name = "obs"
read = lambda batch, key=name: batch[key]  # noqa: E731
name = "other"
read(Batch(obs=np.zeros(2)))
