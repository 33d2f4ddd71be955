"""Ctrl-C arrives wherever it comes, and any other error of the data is answered with a no."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

from typedbatch import Batch, BatchRecord, Rule, conforms, validate
from typedbatch.errors import SchemaError

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers"),
    pytest.mark.timeout(method="thread"),  # as they take the timer and the signal that the limit uses otherwise
]


class Slow:
    """An object that takes its time to compare."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slow) and sum(range(100)) == 4950

    __hash__ = None  # type: ignore[assignment]


class Late(np.ndarray):
    """An array that raises a signal when its shape is read."""

    @property
    def shape(self) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return np.ndarray.shape.__get__(self)


class Column(BatchRecord):
    x: np.ndarray


class Objects(BatchRecord):
    x: NDArray[np.object_]


class Ruled(BatchRecord):
    x: Annotated[np.ndarray, Rule("read", lambda x: bool(x.shape) or True)]


def interrupt(*_: object) -> NoReturn:
    """Do what Python's own handler of Ctrl-C does."""
    raise KeyboardInterrupt("from the handler")


@pytest.fixture
def interrupted() -> Iterator[None]:
    gc.disable()  # what is raised while garbage is collected is lost, which is Python's own way
    signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, lambda *_: None)  # an alarm may still come, by a thread that was not running
    gc.enable()


def of_objects() -> Batch:
    array = np.empty(20, object)
    array[:] = [Slow() for _ in range(20)]
    return Batch(x=array, y=np.arange(20), n=Batch(x=[None, "a"]))


def late() -> Batch:
    batch = Batch()
    batch.__dict__["x"] = np.zeros(3).view(Late)
    return batch


one, two = of_objects(), of_objects()
RUNNING: dict[str, Callable[[], object]] = {
    "==": lambda: one == two,
    "allclose": lambda: one.allclose(two),
    "conforms": lambda: conforms(one, Objects),
    "validate": lambda: validate(one, Objects, level="values") is not None,
}


def run_until_the_signal(work: Callable[[], object], seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for _ in range(100_000):
        assert work() is True


@pytest.mark.parametrize("name", RUNNING)
def test_ctrl_c_arrives_wherever_it_comes(name, interrupted):
    work = RUNNING[name]
    work()  # imports what it needs
    for i in range(60):
        with pytest.raises(KeyboardInterrupt, match="from the handler"):
            run_until_the_signal(work, 0.0001 * (1 + i % 5))


@pytest.mark.parametrize("schema", [Column, Ruled, Column | Ruled])
@pytest.mark.parametrize("ask", [conforms, validate])
def test_ctrl_c_is_not_reported_as_a_problem_of_the_batch(ask, schema, interrupted):
    with pytest.raises(KeyboardInterrupt, match="from the handler"):
        ask(late(), schema)


def test_a_property_that_hands_its_frame_on_is_reported_like_any_other():
    def helper(frame: object) -> NoReturn:
        raise RuntimeError("from the data")

    class Broken(np.ndarray):
        @property
        def shape(self) -> Any:
            helper(sys._getframe())

    batch = Batch()
    batch.__dict__["x"] = np.zeros(3).view(Broken)
    assert not conforms(batch, Column)
    with pytest.raises(SchemaError, match=r"batch\.x  raises RuntimeError when it is looked at"):
        validate(batch, Column)


def test_memory_that_runs_out_is_no_difference():
    class Full:
        def __eq__(self, other: object) -> bool:
            raise MemoryError

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(MemoryError):
        _ = Batch(x=Full()) == Batch(x=Full())
    with pytest.raises(MemoryError):
        Batch(x=Full()).allclose(Batch(x=Full()))
