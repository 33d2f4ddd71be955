"""Fields that come and go with the flow of a program: branches, loops, try, with, match, comprehensions, closures."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol

Array = NDArray[Any]


@contextlib.contextmanager
def timer(name: str) -> Iterator[str]:
    yield name


def look(batch: BatchProtocol) -> int:
    return len(batch.keys())


def enrich(batch: Batch) -> None:
    batch["bonus"] = np.zeros(len(batch))


def both_branches(flag: bool) -> Array:
    b = Batch(obs=np.zeros(3), rew=np.ones(3))
    if flag:
        b.returns = b.rew.cumsum()
    else:
        b.returns = b.rew * 0
    return b.returns + b.rew


def all_branches(kind: str) -> Array:
    b = Batch(rew=np.ones(3))
    if kind == "sum":
        b.target = b.rew.sum(keepdims=True)
    elif kind == "mean":
        b["target"] = b.rew.mean(keepdims=True)
    elif kind == "max":
        b.update(target=b.rew.max(keepdims=True))
    else:
        raise ValueError(kind)
    target: Array = b.target
    return target


def left_early(flag: bool) -> float:
    b = Batch(rew=np.ones(3))
    if flag:
        b.mask = np.ones(3, bool)
    else:
        return 0.0
    return float(b.mask.sum())


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


def loops(steps: int) -> float:
    b = Batch(rew=np.ones(3))
    for step in range(steps):
        b.step = step
        b.scaled = b.rew * b.step
    print(b.step, b.scaled)
    while steps:
        b.left = steps
        steps -= 1
    return float(b.left)


def grown_in_a_loop(steps: int) -> Array:
    b = Batch(rew=np.ones(3))
    for step in range(steps):
        if step == 0:
            b.total = b.rew
        else:
            b.total = b.total + b.rew
    return b.total


def read_after_first_pass(steps: int) -> list[Any]:
    b = Batch(rew=np.ones(3))
    seen = []
    for step in range(steps):
        if step > 0:
            seen.append(b.previous)
        b.previous = b.rew * step
    return seen


def made_in_a_loop(steps: int) -> Array:
    last = Batch(obs=np.zeros(2))
    for step in range(steps):
        last = Batch(obs=last.obs + step, act=step)
    return last.obs


def for_else(values: list[float]) -> Any:
    b = Batch(values=values)
    for value in values:
        if value < 0:
            b.first = value
            break
    else:
        b.first = 0.0
    return b.first


def try_except(raw: str) -> float:
    b = Batch(rew=[1.0])
    try:
        b.scale = float(raw)
    except ValueError:
        b.scale = 1.0
    return float(b.scale)


def try_else(raw: str) -> float:
    b = Batch(rew=[1.0])
    try:
        value = float(raw)
    except ValueError:
        return 0.0
    else:
        b.scale = value
    finally:
        b.done = True
    print(b.done)
    return float(b.scale)


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


def with_suppressed() -> None:
    b = Batch(rew=np.ones(3))
    with contextlib.suppress(AttributeError):
        print(b.missing)
    print(b.rew)


def matched(kind: int) -> Array:
    b = Batch(rew=np.ones(3))
    match kind:
        case 0:
            b.out = b.rew
        case 1 | 2:
            b.out = b.rew * kind
        case _:
            raise ValueError(kind)
    return b.out


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


def comprehensions() -> list[float]:
    batches = [Batch(rew=np.full(2, i), step=i) for i in range(3)]
    totals = [float(b.rew.sum()) for b in batches]
    steps = {int(b.step): b.rew for b in batches if b.rew.any()}
    wide = Batch(**{"total": np.array(totals)})
    print(steps, wide["total"], max(b.step for b in batches))
    return totals


def closures() -> Array:
    b = Batch(rew=np.ones(3))

    def add_returns() -> None:
        b.returns = b.rew.cumsum()

    def read_returns() -> Array:
        value: Array = b.returns
        return value

    add_returns()
    print(b.returns)
    return read_returns()


def read_in_a_lambda() -> float:
    b = Batch(rew=np.ones(3))
    b.scale = 2.0
    scaled: Callable[[], Array] = lambda: b.rew * b.scale  # noqa: E731
    return float(scaled().sum())


def generator(n: int) -> Iterator[Array]:
    b = Batch(rew=np.ones(3))
    for step in range(n):
        b.step = step
        yield b.rew * b.step
    b.closing = True
    yield b.closing


def rebound() -> Tensor:
    b = Batch(obs=np.zeros((2, 3)), rew=np.ones(2))
    b = Batch(act=np.zeros(2, int))
    print(b.act)
    b = Batch(logits=b.act, value=[0.0, 1.0]).to_torch()
    assert_type(b.value, Tensor)
    b = b[:1]
    return b.logits


def rebound_in_branches(flag: bool) -> Array:
    b = Batch(obs=np.zeros(2))
    if flag:
        b = Batch(obs=np.ones(2), mask=np.ones(2))
        print(b.mask)
    elif len(b) > 3:
        b = b[:3]
    return b.obs


def handed_to_others() -> float:
    b = Batch(rew=np.ones(3))
    look(b)
    enrich(b)
    print(b.bonus)
    other = Batch(rew=np.ones(3))
    setattr(other, "bonus", np.zeros(3))
    print(other.bonus)
    return float(b.bonus.sum())


def aliases() -> float:
    b = Batch(rew=np.ones(3))
    same = b
    same.returns = same.rew
    print(b.returns)
    kept = [b]
    kept[0].weight = np.ones(3)
    return float(b.weight.sum())


def conditional(flag: bool) -> Array:
    b = Batch(rew=np.ones(3), done=np.zeros(3)) if flag else Batch(rew=np.zeros(3))
    b.out = b.rew
    return b.out


def deleted_and_back() -> float:
    b = Batch(rew=np.ones(3), tmp=np.ones(3))
    del b.tmp
    b.tmp = b.rew
    del b["tmp"]
    b["tmp"] = b.rew * 2
    assert b.pop("tmp") is not None
    b.setdefault("tmp", 1.0)
    return float(b.tmp)


def two(rew: Array) -> tuple[Array, Array]:
    return rew.cumsum(), rew * 2


def unpacked() -> Array:
    b = Batch(rew=np.ones(3))
    b.returns, b["adv"] = two(b.rew)
    (b.low, b.high), b.mid = two(b.rew), b.rew
    assert_type(b.mid, np.ndarray[tuple[int], np.dtype[np.float64]])
    return b.returns


def set_in_a_loop(steps: int) -> Array:
    b = Batch(rew=np.ones(3))
    for _ in range(steps):
        b.last = b.rew
    return b.last


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


def retried(raw: list[str]) -> float:
    b = Batch(rew=np.ones(3))
    while True:
        try:
            b.scale = float(raw.pop())
            break
        except ValueError:
            continue
    return float(b.scale)


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
    return float(a.z + b.z + a.x + b.y + a.p + a.q) + len(rest)


def none_first(flag: bool) -> int:
    b = None
    if flag:
        b = Batch(rew=np.ones(3))
        b.mask = np.ones(3)
    if b is not None:
        return len(b.rew) + len(b.mask)
    return 0


def never_empty() -> Any:
    b = Batch()
    b.x = 1.0
    print(b.x)
    b.clear()
    b.y = 2.0
    return b.y


def main() -> None:
    for flag in (True, False):
        prepared(flag), both_branches(flag), left_early(flag), same_question_twice(flag)
        asked_first(flag), asked_and_left(flag)
        asked_inline(flag), rebound_in_branches(flag), conditional(flag), none_first(flag)
    for kind in ("sum", "mean", "max"):
        all_branches(kind)
    assert loops(3) == 1
    assert len(grown_in_a_loop(2)) == 3
    assert len(read_after_first_pass(3)) == 2
    assert len(made_in_a_loop(3)) == 2
    for_else([1.0, -1.0]), for_else([1.0])
    assert try_except("x") == 1.0
    assert try_else("2") == 2.0
    assert try_missing() == 1.0
    assert retried(["1", "x"]) == 1
    assert asserted(True) == 3
    with_block()
    with_suppressed()
    matched(2), matched_batch("dqn"), matched_batch("sac"), walrus(3), comprehensions(), closures()
    read_in_a_lambda(), list(generator(2)), rebound(), handed_to_others(), aliases(), deleted_and_back()
    augmented(), chained(), never_empty(), unpacked(), set_in_a_loop(2), replaced_by_its_own(2)


main()
