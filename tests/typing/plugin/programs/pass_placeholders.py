"""Fields that hold a placeholder until another method, function or line fills them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import ActBatchProtocol, Batch, BatchProtocol, ObsBatchProtocol, RolloutBatchProtocol

A = np.ones((2, 3), np.float32)
Array = NDArray[Any]


class HasX(BatchProtocol, Protocol):
    @property
    def x(self) -> Array: ...


class HasNested(BatchProtocol, Protocol):
    @property
    def obs(self) -> HasX: ...


def use(b: ObsBatchProtocol) -> None:
    assert b.obs is not None


def use_x(b: HasX) -> None:
    print(b.x.shape)


def use_nested(b: HasNested) -> None:
    print(b.obs.x.shape)


class Collector:
    """Tianshou's collector."""

    def __init__(self) -> None:
        self.data = Batch(obs={}, act={}, rew={}, terminated={}, truncated={}, obs_next={}, info={}, policy={})
        self.other = Batch(obs={}, info=Batch())
        self.third = Batch(obs=Batch(), info=Batch())
        self.fourth = Batch(obs=None, info=Batch())
        self.fifth = Batch(obs=[], info=Batch())
        self.sixth = Batch(obs=dict(), info=Batch({}))
        self.seventh = Batch(obs=np.empty(0), x=Batch())

    def reset(self) -> None:
        for b in (self.data, self.other, self.third, self.fourth, self.fifth, self.sixth, self.seventh):
            b.obs = A
        self.data.rew = np.ones(2)
        self.data.terminated = self.data.truncated = np.zeros(2, bool)
        self.data.obs_next = A
        self.data.act = A

    def fill(self) -> None:
        self.data.obs = A
        self.other.obs = A
        self.third.obs = A
        self.fourth.obs = A
        self.fifth.obs = A
        self.sixth.obs = A
        self.seventh.obs = A
        self.seventh.x = A

    def step(self) -> None:
        self.reset()
        self.fill()
        use(self.data)
        use(self.other)
        use(self.third)
        use(self.fourth)
        use(self.fifth)
        use(self.sixth)
        use_x(self.seventh)
        rollout(self.data)
        self.act(self.data)
        print(self.data.obs.shape, self.third.obs.mean(), self.fourth.obs.mean())
        print(self.fifth.obs.mean(), self.sixth.obs.mean())
        print(self.data.obs[0], self.data.obs + 1, self.data.obs_next[:, 1], len(self.data.obs))

    def act(self, b: ActBatchProtocol) -> Array:
        return b.act


def rollout(b: RolloutBatchProtocol) -> None:
    print(b.rew.shape)


@dataclass
class Held:
    data: Batch = field(default_factory=lambda: Batch(obs={}, info=Batch()))
    plain: Batch = field(default_factory=Batch)

    def reset(self) -> None:
        self.data.obs = A

    def step(self) -> None:
        self.reset()
        print(self.data.obs.shape)


class OfClass:
    data: ClassVar[Batch] = Batch(obs={}, info=Batch())
    free = Batch(obs=Batch(), info=Batch())

    def reset(self) -> None:
        self.data.obs = A
        type(self).free.obs = A
        OfClass.free.update(obs=A)

    def step(self) -> None:
        self.reset()
        use(OfClass.free)
        print(OfClass.free.obs.shape, self.data.obs.shape)


GLOBAL = Batch(obs={}, info=Batch())
ANNOTATED: Batch = Batch(obs=Batch(), info=Batch())


def fill_global() -> None:
    GLOBAL.obs = A
    ANNOTATED["obs"] = A


def use_global() -> None:
    fill_global()
    use(GLOBAL)
    print(GLOBAL.obs.shape, ANNOTATED.obs.mean())


def of_parameter(b: Batch) -> None:
    b.obs = Batch()
    b.info = {}
    fill(b)
    use(b)
    print(b.obs.shape)


def fill(b: Batch) -> None:
    b.obs = A


def by_update() -> None:
    b = Batch(obs={}, info=Batch())
    b.update(obs=A)
    use(b)
    c = Batch(obs=None, info=Batch())
    c.update({"obs": A})
    use(c)
    d = Batch(obs=[], info=Batch())
    d["obs"] = A
    use(d)
    e = Batch(obs=Batch(), info=Batch())
    setattr(e, "obs", A)
    use(e)
    print(e.obs.shape)
    f = Batch(obs=Batch(), info=Batch())
    for name in ("obs",):
        f[name] = A
    use(f)
    print(f.obs.shape)
    g = Batch(obs={}, info=Batch())
    fill(g)
    use(g)
    print(g.obs.shape)
    h = Batch(obs=np.empty(0), info=Batch())
    h.obs = A
    use(h)


def in_containers() -> None:
    held = {"a": Batch(obs={}, info=Batch())}
    held["a"].obs = A
    use(held["a"])
    print(held["a"].obs.shape)
    several = [Batch(obs={}, info=Batch()) for _ in range(2)]
    for one in several:
        one.obs = A
    use(several[0])
    print(several[0].obs.shape)
    for one in several:
        use(one)
    pair = (Batch(obs=None, info=Batch()), 1)
    pair[0].obs = A
    use(pair[0])


class Base:
    def __init__(self) -> None:
        self.data = Batch(x={}, obs={}, info=Batch())
        self.nested = Batch(obs=Batch(x={}))
        self.make()

    def make(self) -> None:
        raise NotImplementedError

    def go(self) -> None:
        use_x(self.data)
        use(self.data)
        use_nested(self.nested)
        print(self.data.x.shape, self.nested.obs.x.shape)


class Derived(Base):
    def make(self) -> None:
        self.data.x = A
        self.data.obs = A
        self.nested.obs.x = A


class Lists:
    def __init__(self) -> None:
        self.bufs = [Batch(x=Batch()) for _ in range(2)]
        self.named = {"a": Batch(x={}), "b": Batch(x=None)}
        self.maybe: Batch | None = None

    def fill(self) -> None:
        for b in self.bufs:
            b.x = A
        for b in self.named.values():
            b.x = A
        self.maybe = Batch(x={})
        self.maybe.x = A

    def go(self) -> None:
        self.fill()
        use_x(self.bufs[0])
        for b in self.bufs:
            use_x(b)
            print(b.x.shape)
        use_x(self.named["a"])
        use_x(self.named["b"])
        assert self.maybe is not None


def made() -> Batch:
    return Batch(x={}, obs=Batch(), info=Batch())


def of_function() -> None:
    b = made()
    b.x = A
    use_x(b)
    b.obs = A
    use(b)
    print(b.obs.shape)


class State:
    def __init__(self) -> None:
        self.data = Batch()
        self.data.x = Batch()
        self.data.obs = {}
        self.data.info = {}

    def set(self, b: Batch) -> None:
        b.x = A
        b.obs = A

    def go(self) -> None:
        self.set(self.data)
        use_x(self.data)
        use(self.data)
        print(self.data.x.shape)

    def go_by_loop(self) -> None:
        for key, value in {"x": A, "obs": A}.items():
            self.data[key] = value
        use_x(self.data)
        d = self.data
        use_x(d)
        print(d.x.mean())


def outside(c: Collector) -> None:
    c.other.obs = A
    use(c.other)
    print(c.other.obs.shape)


def returned(c: Collector) -> ObsBatchProtocol:
    c.fill()
    return c.other


def assigned(c: Collector) -> None:
    c.fill()
    o: ObsBatchProtocol = c.other
    several: list[ObsBatchProtocol] = [c.other, c.third]
    print(o.obs, several)


if __name__ == "__main__":
    Collector().step()
    Held().step()
    OfClass().step()
    use_global()
    of_parameter(Batch())
    by_update()
    in_containers()
    Derived().go()
    Lists().go()
    of_function()
    State().go()
    State().go_by_loop()
    outside(Collector())
    returned(Collector())
    assigned(Collector())
