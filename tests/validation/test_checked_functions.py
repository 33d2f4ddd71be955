"""Every kind of parameter, function and decorator under checked."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, NotRequired, Protocol, TypedDict, TypeVar, Unpack

import attrs
import numpy as np
import pytest
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    SchemaError,
    checked,
    conforms,
    validate,
)
from typedbatch.errors import DeclarationError

good, bad = Batch(act=np.zeros(2)), Batch()


def test_checked_and_every_kind_of_parameter():
    @checked
    def after_args(*numbers: int, batch: ActBatch) -> Any:
        return numbers, batch

    assert after_args(1, 2, 3, batch=good)[0] == (1, 2, 3)
    with pytest.raises(SchemaError, match="argument `batch`"):
        after_args(1, 2, 3, batch=bad)

    @checked
    def positional(batch: ActBatch, /, **rest: Any) -> Any:
        return rest

    assert positional(good, batch=5) == {"batch": 5}

    @checked
    def default(batch: ActBatch | None = None, *, other: ActBatch = bad) -> Any:  # type: ignore[assignment]
        return batch

    assert default() is None  # a default is the function's own, as everywhere in Python


def test_checked_sees_every_batch_of_star_args_and_of_keywords():
    @checked
    def several(*batches: ActBatch) -> int:
        return len(batches)

    @checked
    def named(**batches: ActBatch) -> int:
        return len(batches)

    assert several(good, good) == named(one=good, two=good) == 2
    with pytest.raises(SchemaError):
        several(good, bad)
    with pytest.raises(SchemaError):
        named(one=good, two=bad)


def test_checked_below_and_above_staticmethod_and_classmethod():
    class Policy:
        @staticmethod
        @checked
        def below(batch: ActBatch) -> int:
            return len(batch)

        @classmethod
        @checked
        def below_too(cls, batch: ActBatch) -> int:
            return len(batch)

    assert Policy.below(good) == Policy().below_too(good) == 2
    for wrapper in (staticmethod, classmethod):
        try:

            class Above:
                method = checked(wrapper(lambda *args: len(args)))  # type: ignore[arg-type]

        except TypeError:
            continue  # refused when the class is made: just as good
        assert Above.method(good) == Above().method(good)


@pytest.mark.parametrize(
    "wrap", [functools.lru_cache, torch.no_grad(), functools.partial], ids=["cache", "grad", "partial"]
)
def test_checked_on_wrapped_functions(wrap: Any):
    def make(n: int = 2) -> ActBatch:
        return Batch(act=np.zeros(n)) if n else bad  # type: ignore[return-value]

    function = checked(wrap(make))
    assert type(function(2)) is ActBatch
    with pytest.raises(SchemaError, match=r"test_checked_functions\.py"):
        function(0)


def test_checked_does_not_stumble_over_an_annotation_that_is_none_of_its_business():
    """``model: nn.Module`` with the import under TYPE_CHECKING is how most training code is written."""

    @checked
    def update(model: OnlyForCheckers, batch: ActBatch) -> AlsoOnlyForCheckers:  # type: ignore[name-defined]
        return len(batch)

    assert update(object(), good) == 2
    with pytest.raises(SchemaError):
        update(object(), bad)


def test_checked_on_a_generic_function_checks_the_bound():
    @checked
    def same(batch: Bound) -> Bound:
        return batch

    assert same(good) is not None
    with pytest.raises(SchemaError):
        same(bad)


Bound = TypeVar("Bound", bound=ActBatchProtocol)


def test_checked_on_a_generator_checks_its_arguments_when_it_starts():
    @checked
    def rows(batch: ActBatch) -> Iterator[ActBatch]:
        yield from batch.split(1)

    assert len(list(rows(good))) == 2
    with pytest.raises(SchemaError):
        next(rows(bad))


T = TypeVar("T")


class Pair(NamedTuple):
    batch: ActBatch
    name: str = ""


class Options(TypedDict):
    batch: ActBatch
    other: NotRequired[ActBatchProtocol]


@dataclass
class State:
    batch: ActBatch
    before: State | None = None


@attrs.define
class Defined:
    batch: ActBatch


@dataclass(frozen=True)
class Box(Generic[T]):
    item: T


class Bare(Protocol):
    act: NDArray[Any]


class BareProperty(Protocol):
    @property
    def act(self) -> NDArray[Any]: ...


def hold(batch: Any) -> dict[Any, Any]:
    """Return, for each annotation, a value that holds this batch."""
    return {
        Pair: Pair(batch), Options: {"batch": batch}, State: State(batch), Defined: Defined(batch),
        Box[ActBatch]: Box(batch), Box[list[ActBatch]]: Box([batch]), list[Pair]: [Pair(batch)],
        dict[str, Options]: {"a": {"batch": batch}}, tuple[Pair, int]: (Pair(batch), 1), Pair | None: Pair(batch),
        Options | list[Pair]: {"batch": batch}, list[ActBatch] | State: State(batch), deque[ActBatch]: deque([batch]),
        defaultdict[str, ActBatch]: defaultdict(None, {"a": batch}),
        OrderedDict[str, ActBatch]: OrderedDict({"a": batch}),
    }  # fmt: skip


HELD = pytest.mark.parametrize("hint", hold(good), ids=str)


@HELD
def test_batches_in_fields_are_validated_wherever_they_come(hint: Any):
    right, wrong = hold(good)[hint], hold(bad)[hint]

    def plain(value: Any = None, *args: Any, **options: Any) -> Any:
        return value

    async def waits(value: Any) -> Any:
        return value

    def yields(value: Any) -> Any:
        yield value

    async def yields_later(value: Any) -> Any:
        yield value

    async def collect(values: Any) -> list[Any]:
        return [value async for value in values]

    plain.__annotations__ = {"value": hint, "args": hint, "options": hint}
    take = checked(plain)
    for call in (take, lambda value: take(right, value), lambda value: take(other=value)):
        call(right)
        with pytest.raises(SchemaError, match="argument"):
            call(wrong)
    for function, returns, run in (
        (plain, hint, lambda value: value),
        (waits, hint, asyncio.run),
        (yields, Iterator[hint], list),
        (yields, Generator[hint, None, None], list),
        (yields_later, AsyncIterator[hint], lambda values: asyncio.run(collect(values))),
    ):
        function.__annotations__ = {"return": returns}  # type: ignore[attr-defined]
        run(checked(function)(right))  # type: ignore[operator]
        with pytest.raises(SchemaError, match="value"):
            run(checked(function)(wrong))  # type: ignore[operator]


def test_a_batch_in_a_named_tuple_or_dict_becomes_a_record_and_the_path_names_it():
    @checked
    def records(pair: Pair, options: Options, state: State) -> list[Any]:
        return [pair, options, state]

    pair, options, state = Pair(good, "p"), Options(batch=good, other=good), State(good)  # type: ignore[arg-type, typeddict-item]
    new_pair, new_options, same = records(pair, options, state)
    assert (type(new_pair), type(new_pair.batch), new_pair.name) == (Pair, ActBatch, "p")
    assert (type(new_options["batch"]), new_options["other"]) == (ActBatch, good)
    assert same is state
    assert pair.batch is options["batch"] is state.batch is good
    for changed, where in (
        ({"pair": Pair(bad)}, r"`pair\.batch`"),  # type: ignore[arg-type]
        ({"options": {"batch": good, "other": bad}}, r"`options\['other'\]`"),
        ({"state": State(bad)}, r"`state\.batch`"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SchemaError, match=where):
            records(**{"pair": pair, "options": options, "state": state, **changed})  # type: ignore[arg-type]


def test_members_of_a_union_of_the_same_class_are_tried_in_turn():
    class Other(BatchProtocol, Protocol):
        obs: NDArray[Any]

    def either(value: Any) -> None: ...

    either.__annotations__ = {"value": list[Other] | list[ActBatch]}
    take = checked(either)
    take([good])
    take([Batch(obs=np.zeros(2))])
    with pytest.raises(SchemaError, match="batch is not an Other"):
        take([bad])


def test_keywords_that_a_typed_dict_declares():
    @checked
    def keywords(**options: Unpack[Options]) -> Any:
        return options["batch"]

    assert type(keywords(batch=good, other=good)) is ActBatch  # type: ignore[typeddict-item]
    for wrong in ({"batch": bad}, {"batch": good, "other": bad}):
        with pytest.raises(SchemaError):
            keywords(**wrong)  # type: ignore[typeddict-item]


def test_defaults_of_fields_are_validated():
    @checked
    @dataclass(frozen=True)
    class Made:
        default: tuple[ActBatch, ...] = (bad,)  # type: ignore[assignment]
        made: ActBatch = field(default_factory=lambda: bad)  # type: ignore[assignment]
        none: ActBatch = None  # type: ignore[assignment]
        own: ActBatch = field(init=False, default_factory=lambda: good)  # type: ignore[assignment]

    right = Made((good,), good)  # type: ignore[arg-type]
    assert [type(value) for value in (*right.default, right.made, right.own)] == [ActBatch] * 3
    with pytest.raises(SchemaError, match=r"field `default\[0\]` of .*Made\(\)"):
        Made(made=good)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="field `made`"):
        Made((good,))  # type: ignore[arg-type]

    @checked
    @attrs.frozen
    class Built:
        made: ActBatch = attrs.field(factory=lambda: bad)  # type: ignore[assignment]

    with pytest.raises(SchemaError, match="field `made`"):
        Built()
    with pytest.raises(TypeError, match="Options is a TypedDict, so its dicts are built unchecked"):
        checked(Options)


@pytest.mark.parametrize("protocol", [Bare, BareProperty])
def test_a_protocol_that_is_not_one_of_batches_is_refused_for_a_batch(protocol: Any):
    way_out = rf"class {protocol.__name__}\(BatchProtocol, Protocol\)"
    values = {protocol: good, protocol | None: good, list[protocol]: [good], Box[protocol]: Box(good)}
    for hint, value in values.items():

        def take(value: Any, *more: Any, **options: Any) -> None: ...

        take.__annotations__ = {"value": hint, "more": hint, "options": hint}
        for call in (checked(take), functools.partial(checked(take), None), lambda v, f=checked(take): f(None, a=v)):  # type: ignore[misc]
            with pytest.raises(DeclarationError, match=way_out):
                call(value)
        checked(take)(torch.nn.Linear(1, 1))  # it is not a batch
    for function in (validate, conforms):
        with pytest.raises(DeclarationError, match=way_out):
            function(good, protocol)

    class Mended(protocol, BatchProtocol, Protocol): ...  # type: ignore[misc, valid-type]

    assert validate(good, Mended) is good
    with pytest.raises(SchemaError):
        validate(bad, Mended)


def test_a_protocol_of_what_every_batch_has_takes_a_batch():
    class Shaped(Protocol):
        @property
        def shape(self) -> list[int]: ...

        def __len__(self) -> int: ...

    @checked
    def take(value: Shaped) -> list[int]:
        return value.shape

    take.__wrapped__.__annotations__["value"] = Shaped  # type: ignore[attr-defined]
    assert take(good) == [2]


class Storage:
    class Batch(BatchRecord):  # the name of another class of typedbatch, which the body of Storage hides
        values: Float[np.ndarray, "N 1"]

    @checked
    def generator(self, width: int) -> Iterator[Batch]:
        yield Storage.Batch(values=np.zeros((6, width)))

    @checked
    def size(self, batch: Batch) -> int:
        return len(batch)

    def list(self) -> None: ...

    @checked
    def several(self, batches: list[Batch]) -> int:
        return len(batches)


def test_annotations_of_a_method_are_read_in_the_body_of_its_class():
    assert next(Storage().generator(1)).values.shape == (6, 1)
    with pytest.raises(SchemaError, match=r"batch is not a Batch"):
        next(Storage().generator(2))
    with pytest.raises(SchemaError, match=r"batch is not a Batch"):
        Storage().size(Batch(values=np.zeros(6)))
    with pytest.raises(SchemaError, match=r"batch is not a Batch"):
        Storage().several([Batch(values=np.zeros(6))])
