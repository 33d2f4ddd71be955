"""checked: batches inside other things, every sort of function, classes; and nothing else about them changes."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import inspect
import pickle
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.validation.helpers import Array
from typedbatch import ActBatch, ActBatchProtocol, Batch, BatchRecord, ObsBatch, SchemaError, checked, checking

good, bad = Batch(act=np.zeros(2)), Batch()


def refusal(function: Any, *args: Any, **kwargs: Any) -> str:
    """Return the boundary as the report names it."""
    with pytest.raises(SchemaError) as caught:
        function(*args, **kwargs)
    return re.sub(
        r"( of)? tests\.validation\.test_boundaries\.\S+  tests/validation/test_boundaries.py:\d+",
        "",
        caught.value.boundary,
    )


@checked
def many(batches: list[ActBatch]) -> list[ActBatch]:
    return batches


@checked
def few(batches: list[ActBatchProtocol]) -> list[ActBatchProtocol]:
    return batches


def test_lists():
    assert [type(batch) for batch in many([good, good])] == [ActBatch, ActBatch]
    assert refusal(many, [good, bad]) == "argument `batches[1]`"
    own = [good, good]
    assert few(own) is own  # nothing became another object
    records = [ActBatch(act=np.zeros(1))]
    assert many(records) is records
    assert many([]) == []


@pytest.mark.parametrize("hint", [Sequence[ActBatch], Iterable[ActBatch], tuple[ActBatch, ...]])
def test_other_collections(hint: Any):
    def take(batches: Any) -> Any:
        return batches

    take.__annotations__ = {"batches": hint}
    function = checked(take)
    values: Any = (good, good) if "tuple" in str(hint) else [good, good]
    assert [type(batch) for batch in function(values)] == [ActBatch, ActBatch]
    assert refusal(function, type(values)([good, bad])) == "argument `batches[1]`"


def test_tuples_and_dicts_and_deeper():
    @checked
    def pair(both: tuple[ActBatch, int]) -> tuple[int, ActBatch | None]:
        return both[1], both[0] if both[1] else bad  # type: ignore[return-value]

    assert type(pair((good, 1))[1]) is ActBatch
    assert refusal(pair, (bad, 1)) == "argument `both[0]`"
    assert refusal(pair, (good, 0)) == "return value[1]"

    @checked
    def agents(batches: dict[str, list[ActBatch]]) -> Mapping[str, ActBatch]:
        return {name: one[0] for name, one in batches.items()}

    assert type(agents({"a": [good]})["a"]) is ActBatch
    assert refusal(agents, {"a": [good], "b": [good, bad]}) == "argument `batches['b'][1]`"


def test_unions_of_batches_and_other_things():
    @checked
    def take(value: ActBatch | list[ActBatch] | int | None = None) -> Any:
        return value

    assert type(take(good)) is ActBatch
    assert type(take([good])[0]) is ActBatch
    assert take(5) == 5
    assert take(None) is None
    assert refusal(take, bad) == "argument `value`"
    assert refusal(take, [bad]) == "argument `value[0]`"

    @checked
    def either(value: ActBatch | ObsBatch) -> Any:
        return value

    assert type(either(Batch(obs=np.zeros(2), info=Batch()))) is ObsBatch


def test_what_is_not_what_the_annotation_says_is_left_to_type_checkers():
    assert many(5) == 5  # type: ignore[arg-type, comparison-overlap]
    assert many(bad) is bad  # type: ignore[arg-type, comparison-overlap]


def test_an_iterator_is_validated_as_it_is_gone_through():
    taken: list[int] = []

    def source() -> Iterator[Batch]:
        for i, batch in enumerate([good, good, bad]):
            taken.append(i)
            yield batch

    @checked
    def first(batches: Iterator[ActBatch]) -> ActBatch:
        return next(batches)

    assert type(first(source())) is ActBatch  # type: ignore[arg-type]
    assert taken == [0]
    assert refusal(lambda batches: collections.deque(loop(batches)), source()) == "argument `batches[2]`"


@checked
def loop(batches: Iterable[ActBatch]) -> Iterator[int]:
    for batch in batches:
        yield len(batch)


def test_a_loader_may_be_gone_through_again():
    class Loader:
        batch_size = 2

        def __iter__(self) -> Iterator[Batch]:
            yield good
            yield good

    @checked
    def twice(loader: Iterable[ActBatch]) -> Any:
        return [type(batch) for batch in loader] + [type(batch) for batch in loader], loader.batch_size  # type: ignore[attr-defined]

    assert twice(Loader()) == ([ActBatch] * 4, 2)


def test_a_generator_function_stays_one_and_takes_what_is_sent_and_thrown():
    log: list[Any] = []

    @checked
    def play(batch: ActBatch) -> Generator[ActBatch, str, ActBatch]:
        try:
            while True:
                try:
                    log.append((yield batch))
                except KeyError as error:
                    log.append(error)
                if log[-1] == "stop":
                    return batch
        finally:
            log.append("closed")

    assert inspect.isgeneratorfunction(play)
    game = play(good)
    assert type(next(game)) is ActBatch
    game.send("one")
    assert isinstance(game.throw(KeyError("two")), ActBatch)
    with pytest.raises(StopIteration) as stopped:
        game.send("stop")
    assert type(stopped.value.value) is ActBatch
    assert log[0] == "one"
    assert isinstance(log[1], KeyError)
    assert log[2:] == ["stop", "closed"]
    game = play(good)
    next(game)
    game.close()
    assert log[-1] == "closed"


def test_what_a_generator_yields_is_validated():
    @checked
    def episodes() -> Iterator[ActBatch]:
        yield good  # type: ignore[misc]
        yield bad  # type: ignore[misc]

    found = episodes()
    next(found)
    assert refusal(next, found) == "yielded value[1]"

    @checked
    def returns() -> Iterator[ActBatch]:
        return iter([good, bad])  # type: ignore[list-item]

    assert refusal(list, returns()) == "return value[1]"


def test_asynchronous_functions_and_generators_stay_what_they_are():
    closed: list[bool] = []

    @checked
    async def act(batch: ActBatch) -> ActBatch:
        return Batch(batch) if len(batch) == 2 else bad  # type: ignore[return-value]

    @checked
    async def stream(batch: ActBatch) -> AsyncIterator[ActBatch]:
        try:
            yield batch
            yield bad  # type: ignore[misc]
        finally:
            closed.append(True)

    @checked
    def later(batch: ActBatch) -> Awaitable[ActBatch]:
        return act(batch)

    @checked
    async def consume(batches: AsyncIterator[ActBatch]) -> list[type]:
        return [type(batch) async for batch in batches]

    async def source() -> AsyncIterator[Batch]:
        yield good

    async def main() -> None:
        assert type(await act(good)) is ActBatch  # type: ignore[arg-type]
        assert type(await later(good)) is ActBatch  # type: ignore[arg-type]
        assert await consume(source()) == [ActBatch]  # type: ignore[arg-type]
        found = stream(good)  # type: ignore[arg-type]
        assert type(await anext(found)) is ActBatch
        with pytest.raises(SchemaError, match=r"yielded value\[1\]"):
            await anext(found)
        assert closed == [True]
        left = stream(good)  # type: ignore[arg-type]
        await anext(left)
        await left.aclose()  # type: ignore[attr-defined]
        assert closed == [True, True]

    assert inspect.iscoroutinefunction(act)
    assert inspect.isasyncgenfunction(stream)
    assert not inspect.iscoroutinefunction(later)
    asyncio.run(main())
    assert refusal(lambda: asyncio.run(act(Batch(act=np.zeros(3))))) == "return value"  # type: ignore[arg-type]


def test_an_asynchronous_generator_takes_what_is_sent_and_thrown():
    log: list[Any] = []

    @checked
    async def play() -> Any:
        while True:
            try:
                log.append((yield good))
            except KeyError:
                log.append("thrown")

    async def main() -> None:
        game = play()
        await anext(game)
        await game.asend("sent")
        await game.athrow(KeyError())
        await game.aclose()

    asyncio.run(main())
    assert log == ["sent", "thrown"]


@checked
@dataclasses.dataclass(frozen=True)
class Trainer:
    batch: ActBatch
    history: list[ActBatch] = dataclasses.field(default_factory=list)
    rate: float = 0.1


@checked
class Pair(NamedTuple):
    first: ActBatch
    rest: int = 0


@checked
class Plain:
    def __init__(self, batch: ActBatch, *, name: str = "") -> None:
        self.batch, self.name = batch, name


class Child(Plain):
    def extra(self) -> int:
        return len(self.batch)


@checked
class Step(BatchRecord):
    obs: Array
    act: Array


def test_the_constructor_of_a_class():
    for cls in (Trainer, Plain, Pair, Child):
        made: Any = cls(good)  # type: ignore[arg-type, type-var]
        assert type(made) is cls
        assert refusal(cls, bad) in ("argument `batch`", "argument `first`")
    assert type(Trainer(good).batch) is ActBatch  # type: ignore[arg-type]
    assert refusal(Trainer, good, [good, bad]) == "argument `history[1]`"
    assert Trainer(good) == Trainer(good)  # type: ignore[arg-type]
    assert Child(good).extra() == 2  # type: ignore[arg-type]
    assert dataclasses.is_dataclass(Trainer)
    assert pickle.loads(pickle.dumps(Trainer(good))).rate == 0.1  # type: ignore[arg-type]


def test_a_record_checks_itself_when_it_is_made():
    assert len(Step(obs=np.zeros(2), act=np.zeros(2))) == 2
    assert refusal(Step, obs=np.zeros(2), act=np.zeros(3)) == "constructor"
    with checking("off"):
        Step(obs=np.zeros(2), act=np.zeros(3))


@checked
def documented(batch: ActBatch, scale: float = 1.0, *rest: int, key: str = "k", **more: Any) -> float:
    """Return the scale."""
    return scale


def test_name_docstring_signature_and_pickling():
    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Return the scale."
    assert str(inspect.signature(documented)) == (
        "(batch: 'ActBatch', scale: 'float' = 1.0, *rest: 'int', key: 'str' = 'k', **more: 'Any') -> 'float'"
    )
    assert pickle.loads(pickle.dumps(documented)) is documented


def test_errors_and_arguments_of_the_function_pass_through():
    @checked
    def fail(batch: ActBatch) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail(good)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        fail(good, other=1)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match="missing 1 required"):
        fail()  # type: ignore[call-arg]


def test_a_context_manager_is_no_generator_to_be_gone_through():
    import contextlib

    @checked
    @contextlib.contextmanager
    def opened(batch: ActBatch) -> Iterator[ActBatch]:
        yield batch

    with opened(good) as batch:  # type: ignore[arg-type]
        assert type(batch) is ActBatch
    assert refusal(opened, bad) == "argument `batch`"


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match=r"checked\(\) takes a function, got int"):
        checked(5)  # type: ignore[call-overload]


def test_a_named_argument_is_none_of_the_other_keywords():
    @checked
    def train(scale: float = 1.0, /, rate: float = 0.1, *, name: str = "", **batches: ActBatch) -> Any:
        return rate, name, {key: type(batch) for key, batch in batches.items()}

    assert train(rate=0.5, name="n", one=good) == (0.5, "n", {"one": ActBatch})
    assert refusal(train, one=bad) == "argument `one`"


class Buffer(list[ActBatch]):
    def add(self, batch: Any) -> None:
        self.append(batch)


def test_a_class_of_somebody_else_is_handed_on_as_it_is():
    @checked
    def fill(buffer: Buffer, queue: collections.deque[ActBatch], task: asyncio.Future[ActBatch] | None = None) -> Any:
        return buffer, queue, task

    @checked
    def either(values: Sequence[ActBatch]) -> Any:
        return values

    buffer, queue = Buffer([good]), collections.deque([good])
    assert fill(buffer, queue)[0] is buffer
    assert fill(buffer, queue)[1] is queue
    assert either(buffer) is buffer  # validated, and still a buffer
    assert refusal(either, Buffer([bad])) == "argument `values[0]`"
    pair = collections.namedtuple("pair", "a b")(good, good)
    assert checked(annotated(tuple[ActBatch, ActBatch]))(pair) is pair
    default = collections.defaultdict(list, a=good)
    assert checked(annotated(dict[str, ActBatch]))(default) is default


def annotated(hint: Any) -> Any:
    def function(value: Any) -> Any:
        return value

    function.__annotations__ = {"value": hint}
    return function


def test_a_key_of_a_dict_is_not_asked_for_its_text():
    class Key:
        def __repr__(self) -> str:
            raise RuntimeError

    assert checked(annotated(dict[Any, ActBatchProtocol]))({Key(): good})
    assert refusal(checked(annotated(dict[Any, ActBatchProtocol])), {Key(): bad}) == "argument `value[Key]`"


def test_a_coroutine_function_under_another_decorator():
    def retry(function: Any) -> Any:
        @functools.wraps(function)
        def again(*args: Any) -> Any:
            return function(*args)

        return again

    @checked
    @retry
    async def act(batch: ActBatch) -> ActBatch:
        return batch if len(batch) == 2 else bad  # type: ignore[return-value]

    assert type(asyncio.run(act(good))) is ActBatch
    assert refusal(lambda: asyncio.run(act(Batch(act=np.zeros(3))))) == "return value"


def test_an_asynchronous_generator_from_a_plain_function_takes_what_is_sent():
    async def source() -> Any:
        sent = yield good
        yield Batch(act=np.full(1, sent))

    @checked
    def stream() -> AsyncGenerator[ActBatch, int]:
        return source()

    async def main() -> None:
        found = stream()
        assert type(await anext(found)) is ActBatch
        assert (await found.asend(7)).act.tolist() == [7]

    asyncio.run(main())


def test_builtins_and_classes_that_inherit_their_constructor():
    @checked
    class Broken(Exception): ...

    assert str(Broken("x")) == "x"
    assert checked(len)([1]) == 1
