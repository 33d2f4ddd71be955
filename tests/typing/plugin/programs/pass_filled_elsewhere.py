"""Fields that another function, thread or block sets."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from typedbatch import Batch, ObsBatchProtocol

A = np.ones((2, 3))


def use(b: ObsBatchProtocol) -> None:
    print(b.obs.shape)


def prepare(b: Batch) -> Batch:
    b.info = Batch()
    return b


def same(b: Batch) -> Batch:
    return b


class Trainer:
    def __init__(self, data: Batch) -> None:
        self.data = data

    def pre(self, b: Batch) -> Batch:
        b.info = Batch()
        return b


def wrap(b: Batch) -> Batch:
    return prepare(b)


def method_then(t: Trainer, b: Batch) -> Batch:
    return t.pre(b)


def finally_then_except() -> None:
    b = Batch(x=A)
    try:
        try:
            raise ValueError
        finally:
            b.y = A
    except ValueError:
        print(b.y)


def finally_deep(path: str) -> None:
    b = Batch(x=A)
    try:
        try:
            float(path)
        finally:
            b.status = A
    except ValueError:
        print(b["status"].shape)
    print(b.status)


def with_then_except() -> None:
    b = Batch(x=A)
    try:
        for _ in range(2):
            try:
                raise KeyError
            except KeyError:
                b.z = A
                raise
            finally:
                b.w = A
    except KeyError:
        print(b.z, b.w)


STATE = Batch(x=A)


def setup() -> None:
    STATE.y = A


def setup_by_item() -> None:
    STATE["z"] = A


setup()
print(STATE.y)
setup_by_item()
print(STATE.z)


class Maker:
    def make(self) -> None:
        STATE.w = A


Maker().make()
print(STATE.w)
LOCAL = Batch()
(lambda: LOCAL.update(q=A))()
print(LOCAL.q)


def threads() -> None:
    b = Batch(x=A)

    def work() -> None:
        b.y = A

    t = threading.Thread(target=work)
    t.start()
    t.join()
    print(b.y)


def fill_t(b: Batch) -> None:
    b.y = A


def threads_by_argument() -> None:
    b = Batch(x=A)
    t = threading.Thread(target=fill_t, args=(b,))
    t.start()
    t.join()
    print(b.y)
    c = Batch(x=A)
    u = threading.Thread(target=fill_t, kwargs={"b": c})
    u.start()
    u.join()
    print(c.y)


def pool() -> None:
    from concurrent.futures import ThreadPoolExecutor

    b = Batch(x=A)
    with ThreadPoolExecutor() as p:
        p.submit(fill_t, b).result()
    print(b.y)
    c = Batch(x=A)

    def inner() -> None:
        c.y = A

    with ThreadPoolExecutor() as p:
        p.submit(inner).result()
    print(c.y)


def callbacks() -> None:
    b = Batch(x=A)

    def on_done() -> None:
        b.y = A

    hooks = [on_done]
    for h in hooks:
        h()
    print(b.y)
    c = Batch(x=A)

    def on_end() -> None:
        c.y = A

    run(on_end)
    print(c.y)


def run(f: Any) -> None:
    f()


def via_helper(b: Batch) -> None:
    b.obs = A
    use(prepare(b))


def via_same(b: Batch) -> None:
    b.obs = A
    b.info = Batch()
    use(same(b))


def via_method(t: Trainer, b: Batch) -> None:
    b.obs = A
    use(t.pre(b))


def local_via_helper() -> None:
    b = Batch(obs=A)
    use(prepare(b))
    c = Batch(obs=A)
    d = same(c)
    d.info = Batch()
    use(d)


def wrapped(t: Trainer) -> None:
    b = Batch(obs=A)
    use(wrap(b))
    c = Batch(obs=A)
    use(method_then(t, c))
    use(c)
    d = Batch(obs=A)
    t.pre(d)
    use(d)
    e = Batch(obs=A)
    run(lambda: prepare(e))
    use(e)


def parameter(t: Trainer, b: Batch, c: Batch) -> None:
    b.obs = A
    t.pre(b)
    use(b)
    c.obs = A
    method_then(t, c)
    use(c)


def fill_state() -> None:
    fill_v(STATE)


def fill_v(b: Batch) -> None:
    b.v = A


fill_state()
print(STATE.v)


def listed() -> None:
    b = Batch(x=A)
    xs = [b]
    t = threading.Thread(target=fill_all, args=(xs,))
    t.start()
    t.join()
    print(b.y)


def fill_all(xs: list[Batch]) -> None:
    for x in xs:
        x.y = A


def items(rows: list[dict[str, Any]], b: Batch, unknown: Any) -> None:
    many = Batch(rows)
    print(many["x"], many.x)
    b["x"] = [1, 2]
    print(b["x"].mean(), b["x"][0])
    b["y"] = rows
    print(b["y"]["x"].mean(), b["y"].x)
    b["z"] = [{"a": 1}, {"a": 2}]
    print(b["z"]["a"].mean())
    c = Batch(x=unknown)
    print(c["x"]["y"])
    d = Batch(x=rows)
    print(d["x"]["x"].mean(), d.x.x)
    e = Batch({"k": rows, "l": [unknown]})
    print(e["k"]["x"], e["l"])
    f = Batch(info=[{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    print(f.info["a"], f.info.b, f["info"]["a"])
    g = Batch(info=[dict(a=1), dict(a=2)])
    print(g.info.a.mean())
    rows2 = [{"x": 1.0} for _ in range(3)]
    h = Batch(rows2)
    print(h["x"].mean(), h.x[0])
    i = Batch(r=rows2)
    print(i["r"]["x"].mean(), i.r.x[0])
    j = Batch(r=[Batch(x=1.0) for _ in range(3)])
    print(j["r"]["x"].mean(), j.r.x[0])
    k = [Batch(x=1.0), Batch(x=2.0)]
    m = Batch(r=k)
    print(m["r"]["x"].mean(), m.r.x[0])
    for row in rows:
        n = Batch(row)
        print(n["x"], n.x)
    for bb in b:
        print(bb["x"])
    names = ["x"]
    print([b[name] for name in names], b[names[0]])


if __name__ == "__main__":
    finally_then_except()
    finally_deep("x")
    with_then_except()
    threads()
    threads_by_argument()
    pool()
    callbacks()
    via_helper(Batch())
    via_same(Batch())
    via_method(Trainer(Batch()), Batch())
    local_via_helper()
    wrapped(Trainer(Batch()))
    parameter(Trainer(Batch()), Batch(), Batch())
    listed()
    items([{"x": 1.0}, {"x": 2.0}], Batch(), {"y": 1})
