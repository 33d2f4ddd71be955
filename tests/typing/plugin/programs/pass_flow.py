"""Fields that come and go with the flow of a program, where it is not what random programs are made of."""

import contextlib
from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol

Array = NDArray[Any]


@contextlib.contextmanager
def timer(name: str) -> Iterator[str]:
    yield name


def look(batch: BatchProtocol) -> int:
    return len(batch.keys())


def enrich(batch: Batch) -> None:
    batch["bonus"] = np.zeros(len(batch))


def same_question_twice(use_mask: bool) -> float:
    b = Batch(rew=np.ones(3))
    if use_mask:
        b.mask = np.ones(3)
    total = b.rew.sum()
    if use_mask:
        total = total + b.mask.sum()
    return float(total)


def asked_first(b_flag: bool) -> float:
    b = Batch(rew=np.ones(3))
    if b_flag:
        b.weight = np.full(3, 0.5)
    if hasattr(b, "weight"):
        return float(b.weight.sum())
    if "prio" in b:
        return float(b.prio.sum())
    return float(b.get("prio", 0.0)) + float(b.rew.sum())


def asked_and_left(flag: bool) -> float:
    b = Batch(rew=np.ones(3))
    if flag:
        b.weight = np.full(3, 0.5)
    if "weight" not in b:
        return 1.0
    return float(b.weight.sum())


def asked_inline(flag: bool) -> Any:
    b = Batch(rew=np.ones(3))
    if flag:
        b.n_step = 3
    return b.n_step if "n_step" in b else 1


def read_after_first_pass(steps: int) -> list[Any]:
    b = Batch(rew=np.ones(3))
    seen = []
    for step in range(steps):
        if step > 0:
            seen.append(b.previous)
        b.previous = b.rew * step
    return seen


def try_missing() -> float:
    b = Batch(rew=[1.0])
    try:
        return float(b.bonus)
    except AttributeError:
        pass
    try:
        return float(b["bonus"])
    except KeyError:
        return float(b.rew.sum())


def with_block() -> float:
    b = Batch(rew=np.ones(3))
    with timer("returns") as name:
        b.returns = b.rew.cumsum()
        b.name = name
    print(b.name.upper())
    return float(b.returns[-1])


def matched_batch(kind: str) -> Array:
    match kind:
        case "dqn":
            b = Batch(q=np.ones(3))
        case _:
            b = Batch(q=np.zeros(3), v=np.zeros(3))
    return b.q


def walrus(n: int) -> float:
    if (b := Batch(rew=np.ones(n))).rew.sum() > 2:
        b.big = b.rew > 0
        print(b.big)
    while n and (row := b[0]) is not None:
        print(row.rew)
        n -= 1
    return float(b.rew.sum())


def generator(n: int) -> Iterator[Array]:
    b = Batch(rew=np.ones(3))
    for step in range(n):
        b.step = step
        yield b.rew * b.step
    b.closing = True
    yield b.closing


def handed_to_others() -> float:
    b = Batch(rew=np.ones(3))
    look(b)
    enrich(b)
    print(b.bonus)
    other = Batch(rew=np.ones(3))
    setattr(other, "bonus", np.zeros(3))
    print(other.bonus)
    return float(b.bonus.sum())


def two(rew: Array) -> tuple[Array, Array]:
    return rew.cumsum(), rew * 2


def unpacked() -> Array:
    b = Batch(rew=np.ones(3))
    b.returns, b["adv"] = two(b.rew)
    (b.low, b.high), b.mid = two(b.rew), b.rew
    assert_type(b.mid, np.ndarray[tuple[int], np.dtype[np.float64]])
    return b.returns


def replaced_by_its_own(n: int) -> Array:
    b = Batch(obs={"cam": np.zeros(n), "pos": np.ones(n)}, raw=[1.0] * n)
    b.obs = b.obs.cam
    b.raw = b["raw"].reshape(1, -1)
    b.rew, b.obs = b.obs, b.raw
    return b.rew


def prepared(flag: bool) -> float:
    b = Batch(rew=np.ones(3))
    with timer("mask"):
        if not flag:
            b.mask = None
        else:
            b.mask = b.rew > 0
    return float(b.rew.sum() if b.mask is None else b.mask.sum())


def asserted(flag: bool) -> float:
    b = Batch(rew=np.ones(3))
    if flag:
        b.mask = np.ones(3)
    assert "mask" in b
    return float(b.mask.sum())


def augmented() -> Array:
    b = Batch(rew=np.ones(3), count=0)
    b.rew += 1
    b.rew *= 0.5
    b["rew"] -= 1
    b.count += 1
    b.rew[b.rew > 0] = 0
    b.rew[0], b.rew[1] = 3.0, 4.0
    return b.rew


def chained() -> float:
    a, b = Batch(x=1.0), Batch(y=2.0)
    a.z = b.z = 3.0
    a.x, b.y = b.y, a.x
    (a.p, a.q), *rest = (1.0, 2.0), 3
    for a.i, b.j in [(1, 2), (3, 4)]:
        print(a.i, b.j)
    for a.k in (1, 2):
        print(a.k)
    return float(a.z + b.z + a.x + b.y + a.p + a.q) + len(rest)


def none_first(flag: bool) -> int:
    b = None
    if flag:
        b = Batch(rew=np.ones(3))
        b.mask = np.ones(3)
    if b is not None:
        return len(b.rew) + len(b.mask)
    return 0


def main() -> None:
    for flag in (True, False):
        prepared(flag), same_question_twice(flag)
        asked_first(flag), asked_and_left(flag)
        asked_inline(flag), none_first(flag)
    assert len(read_after_first_pass(3)) == 2
    assert try_missing() == 1.0
    assert asserted(True) == 3
    with_block()
    matched_batch("dqn"), matched_batch("sac"), walrus(3)
    list(generator(2)), handed_to_others()
    augmented(), chained(), unpacked(), replaced_by_its_own(2)


main()
