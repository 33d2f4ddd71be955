"""Right programs, of which nothing is reported: idioms by which a field, a name or a batch is another than it seems."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import dataclasses
import enum
import functools
import json
import operator
import sys
import threading

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


# Attributes of classes and instances


class Plain:
    batch = Batch(obs=np.zeros(2))
    shared = Batch(obs=np.zeros(2))
    kept = Batch(obs=np.zeros(2), adv=np.ones(2))

    def __init__(self, is_new):
        if is_new:
            self.kept = Batch(obs=np.zeros(2))

    def put(self):
        type(self).shared.adv = np.ones(2)

    def replace(self, **batches):
        self.__dict__.update(batches)


class Derived(Plain):
    names: tuple[str, ...] = ("obs",)
    if len(sys.argv) > 0:
        batch, other = Batch(adv=np.ones(2)), 1
    for name in names:
        print(Batch(obs=np.zeros(2))[name])


derived = Derived(len(sys.argv) > 9)
derived.put()
print(derived.batch.adv, derived.shared.adv, derived.kept.adv)
derived.only = Batch(obs=np.zeros(2))
derived.replace(only=Batch(adv=np.ones(2)))
print(derived.only.adv)
if len(sys.argv) > 9:
    Derived.kept = Batch(obs=np.zeros(2))
print(Derived(False).kept.adv)


class Single:
    made = None

    def __new__(cls):
        cls.made = cls.made or super().__new__(cls)
        return cls.made

    def __init__(self):
        if not hasattr(self, "batch"):
            self.batch = Batch(obs=np.zeros(2))


Single().batch.adv = np.ones(2)
print(Single().batch.adv)


@dataclasses.dataclass(frozen=True)
class Frozen:
    batch: Batch

    def __post_init__(self):
        object.__setattr__(self, "batch", Batch(self.batch, adv=np.ones(2)))


print(Frozen(Batch(obs=np.zeros(2))).batch.adv)


class Mode(enum.Enum):
    TRAIN = "train"


print(Batch(adv=np.ones(2))["adv" if Mode.TRAIN != "train" else "obs"])

several = [Batch(obs=np.zeros(2))]
list.append(several, Batch(adv=np.ones(2)))
print(several[-1].adv)
given = Batch(obs=np.zeros(2))
operator.setitem(given, "adv", np.ones(2))
print(given.adv)


async def in_another_thread():
    batch = Batch(obs=np.zeros(2))
    await asyncio.to_thread(fill, batch)
    return batch.adv


asyncio.run(in_another_thread())


# What runs later than it is called


def reads(batch):
    yield batch.adv


def gives_up(batch):
    yield 1
    batch.pop("adv")


async def waits(batch):
    await asyncio.sleep(0)
    return batch.adv


async def tasks():
    batch = Batch(obs=np.zeros(2))
    task = asyncio.create_task(waits(batch))
    batch.adv = np.ones(2)
    await task


def prints(batch):
    print(batch.adv)


late = Batch(obs=np.zeros(2))
late_generator = reads(late)
late_expression = (late.adv for _ in range(3))
late_map = map(prints, [late])
late.adv = np.ones(2)
print(next(late_generator), *late_expression, *late_map)
asyncio.run(tasks())
begun = gives_up(late)
next(begun)
print(late.adv)
early = Batch(adv=np.ones(2))
thread = threading.Thread(target=prints, args=(early,))
thread.start()
thread.join()
del early.adv


# What a call that is not followed may have done


class Store:
    batch = Batch(obs=np.zeros(2))


def goes_through(state):
    if state == "a":
        goes_through("b")
    elif state == "b":
        goes_through("c")
    elif state == "c":
        goes_through("d")
    else:
        Store.batch.adv = np.ones(2)
        called.done = np.ones(2)


goes_through("a")
print(Store.batch.adv, called.done)


@functools.lru_cache
def remembered_by_a_library():
    called.logged = np.ones(2)
    return Batch(obs=np.zeros(2))


remembered_by_a_library().adv = np.ones(2)
print(remembered_by_a_library().adv, called.logged)

grows = [Batch(obs=np.zeros(2))]
for grown in grows:
    if len(grows) < 2:
        grows.append(Batch(adv=np.ones(2)))
print(grown.adv)


# Orders of classes, exits and loops


class Top:
    def run(self, batch):
        batch.top = np.ones(2)


class Left(Top):
    def run(self, batch):
        super().run(batch)


class Right(Top):
    def run(self, batch):
        super().run(batch)
        batch.right = np.ones(2)


class Both(Left, Right):
    pass


ran = Batch(obs=np.zeros(2))
Both().run(ran)
print(ran.right)


def returns_before():
    batch = Batch(obs=np.zeros(2))
    try:
        return batch
    finally:
        batch.adv = np.ones(2)


print(returns_before().adv)
with contextlib.suppress(ValueError):
    ran.adv = np.ones(2)
    raise ValueError
print(ran.adv)


class Node:
    def __init__(self, batch, after=None):
        self.batch, self.after = batch, after


end = Batch(obs=np.zeros(2))
node = Node(end)
node = Node(Batch(), Node(Batch(), Node(Batch(), Node(Batch(), node))))
while node is not None:
    node.batch.adv = np.ones(2)
    node = node.after
print(end.adv)


class Setting:
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, instance, owner=None):
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, Batch(value, adv=np.ones(2)))


class Holder:
    batch = Setting()


holder = Holder()
holder.batch = Batch(obs=np.zeros(2))
print(holder.batch.adv)

objects = np.array([ran, None], object)
objects[0].ret = np.ones(2)
print(ran.ret)


class Own(Batch):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.adv = np.ones(2)


print(Own(obs=np.zeros(2)).adv)


class Closing:
    def __init__(self, batch):
        self.batch = batch

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.batch.adv = np.ones(2)


def returns_within():
    batch = Batch(obs=np.zeros(2))
    with Closing(batch):
        return batch


print(returns_within().adv)
left_early = Batch(obs=np.zeros(2))
while True:
    try:
        break
    finally:
        left_early.adv = np.ones(2)
print(left_early.adv)
print(Batch.cat([Batch(a=np.zeros(2), b=np.zeros(2)), Batch(b=np.ones(1))], "pad").a)


def one_of_two_changed_by_its_dict():
    first, other = Batch(obs=1), Batch(act=1)
    for _ in range(3):
        other.__dict__["rew"] = 1
        other = first
    first.rew


one_of_two_changed_by_its_dict()


class Special:
    def __init__(self):
        self.batch = Batch(obs=1)

    def __len__(self):
        self.batch.act = 1
        return 1

    def __str__(self):
        self.batch.rew = 1
        return ""


special = Special()
if special:
    special.batch.act
print(f"{special}", special.batch.rew)


@contextlib.contextmanager
def closing_late(batch):
    try:
        yield batch
    finally:
        batch.done = 1


def early():
    batch = Batch(obs=1)
    with closing_late(batch):
        return batch


early().done


def asserted(batch):
    try:
        assert "rew" in batch
        batch.rew
    except AssertionError:
        batch.rew = 1
    if not {"obs", "act"} <= set(batch.keys()):
        batch.act = 1
    return batch.rew, batch.act


asserted(Batch(obs=1))


def in_a_lambda(batch):
    try:
        (lambda: batch.rew)()
    except Exception:  # noqa: BLE001  # as in a loop that has to go on
        batch.rew = 1
    return batch.rew


in_a_lambda(Batch(obs=1))


def left_for_the_handler():
    batch = Batch(obs=1)
    try:
        batch.rew
        if len(sys.argv) > 1:
            del batch.obs
    except AttributeError:
        batch.rew = 1
    if len(sys.argv) > 2:
        del batch.obs
    list(map(lambda one: one.update(obs=1), [batch]))  # noqa: C417  # map() is what is tested
    return batch.obs, batch.rew


left_for_the_handler()


class Wanting:
    def __init__(self, names):
        self.names = names

    def wants(self, name):
        return any(one == name for one in self.names)

    def read(self, batch, name):
        is_wanted = self.wants(name)
        if not is_wanted:
            return None
        return batch[name]

    def read_at_once(self, batch, name):
        return batch[name] if self.wants(name) else self.wants(name) and batch[name]


for name in ("obs", "adv"):
    Wanting(["obs"]).read(Batch(obs=1), name)
    Wanting(["obs"]).read_at_once(Batch(obs=1), name)
for name, is_on in (("obs", len(sys.argv) > 0), ("adv", len(sys.argv) < 0)):
    if is_on:
        Batch(obs=1)[name]
for term in ({"key": "obs", "on": len(sys.argv) > 0}, {"key": "adv", "on": len(sys.argv) < 0}):
    if term["on"]:
        Batch(obs=1)[term["key"]]


def answers():
    batches = [Batch(obs=1), Batch(obs=1)]
    answer = bool("rew" in batches[0])
    if answer:
        batches[0].rew
    if all("rew" in one for one in batches):
        batches[0].copy().rew
    if not all(hasattr(one, "rew") for one in batches):
        return batches[0].obs
    return batches[0].rew


answers()
while "rew" in (lacking := Batch(obs=1)):
    lacking.rew
try:
    asked = lacking["rew"]
except KeyError:
    asked = lacking.obs
else:
    asked = lacking.rew
match "ppo":
    case "ppo" if "rew" in lacking:
        lacking.rew
    case _:
        lacking.obs


class Setup:
    use_adv = False

    def __init__(self):
        self.use_rew = False


setup = Setup()
for key in json.loads('["use_adv", "use_rew"]'):
    setattr(setup, key, True)
    setattr(Setup, key, True)
set_later = Batch(obs=1)
if setup.use_rew:
    set_later.rew = 1
if Setup.use_adv:
    set_later.adv = 1
if len(sys.argv) > 0:
    set_later.rew, set_later.adv


def fills():
    filled = yield
    filled.adv = 1
    yield filled


filling, filled = fills(), Batch(obs=1)
next(filling)
filling.send(filled)
filled.adv
for name in {"adv"} - {"adv"}:
    lacking[name]
few, fewer, fewest, none = ["adv"], {"adv"}, ["adv"], ["adv"]
few.remove("adv")
fewer.intersection_update({"obs"})
fewest.pop()
first, *rest = none
for name in (*few, *fewer, *fewest, *rest, *none[1:]):
    lacking[name]
for name in ("obs", "adv"):
    match len(sys.argv) < 0 or name:
        case "obs":
            lacking[name]


class Dispatching:
    def __init__(self):
        self.batch = Batch(obs=1)

    def on_act(self):
        self.batch.act = 1

    def on_rew(self):
        self.batch.rew = 1

    def tell(self, event):
        getattr(self, f"on_{event}", None)()


dispatching = Dispatching()
for event in json.loads('["act"]'):
    getattr(dispatching, f"on_{event}")()
dispatching.tell("rew")
dispatching.batch.act, dispatching.batch.rew
other_dispatching = Dispatching()
other_dispatching.tell("rew")
other_dispatching.batch.rew
deep = copy.deepcopy(other_dispatching)
del deep.batch.rew
other_dispatching.batch.rew


class Remembering(Dispatching):
    def __setstate__(self, state):
        self.__dict__.update(state)
        self.batch.seen = 1


copy.deepcopy(Remembering()).batch.seen
in_place = Batch(done=0)
in_place.done[...] = 1
if in_place.done:
    in_place.end = 1
if len(sys.argv) > 0:
    in_place.end


class Phase(enum.Enum):
    FIRST = 1
    SAME = 1  # noqa: PIE796
    LATER = 2


def of_phase(batch, phase, weight=0.0, **settings):
    if weight > 0:
        batch.weight
    if settings.get("is_late", False):
        batch.late
    return batch.obs if phase is not Phase.LATER and phase == Phase.SAME else batch.rew


of_phase(Batch(obs=1), Phase.FIRST)
of_phase(Batch(rew=1), Phase.LATER)
use_done, after_exec = False, Batch(obs=1)
exec("use_done = True")
if use_done:
    after_exec.done = 1
if len(sys.argv) > 0:
    after_exec.done
