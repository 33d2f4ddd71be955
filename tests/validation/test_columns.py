"""Columns of objects that declare the type of their items."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any, Generic, Literal, NotRequired, Protocol, TypedDict, TypeVar

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatch,
    Batch,
    BatchRecord,
    Column,
    Ragged,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    cat,
    checking,
    conforms,
    convert,
    extend,
    objects,
    validate,
)
from typedbatch.errors import DeclarationError
from typedbatch.testing import batches, example

T = TypeVar("T")


class Message(TypedDict):
    role: Literal["user", "assistant"]
    name: NotRequired[str]


class Grader(Protocol):
    def grade(self, answer: str) -> float: ...


class Questions(BatchRecord):
    answer: Column[str]
    messages: Column[list[Message]]
    score: Column[float | None]
    tool: Column[Message] | None = None


class Any_(BatchRecord):
    bare: Column  # type: ignore[type-arg]  # what a careless user writes
    grader: Column[Grader]
    anything: Column[Any]
    object_: Column[object]


class Pairs(BatchRecord, Generic[T]):
    item: Column[T]


def questions(**changes: Any) -> Batch:
    right = {"answer": objects(["a", "b"]), "messages": objects([[{"role": "user"}], []]), "score": objects([1, None])}
    return Batch(right | changes)


OF_LISTS = "messages: 1 of 2 values is not list[Message], the first at "


def report(batch: Any) -> list[str]:
    with checking("values"), pytest.raises(SchemaError) as caught:
        validate(batch, Questions)
    return [f"{problem.path}: {problem.got}" for problem in caught.value.problems]


def test_items_of_the_type_pass():
    with checking("values"):
        assert type(validate(questions(), Questions)) is Questions
        validate(questions(tool=objects([{"role": "user", "name": "x"}] * 2)), Questions)
        validate(questions()[:0], Questions)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": objects(["a", 2])}, "answer: 1 of 2 values is not str, the first at [1]"),
        ({"answer": objects([None, 2])}, "answer: 2 of 2 values are not str, the first at [0]"),
        ({"score": objects(["a", None])}, "score: 1 of 2 values is not float or None, the first at [0]"),
        ({"messages": objects([{}, []])}, OF_LISTS + "[0]"),
        ({"messages": objects([[], [{"role": "me"}]])}, OF_LISTS + "[1]"),
        ({"messages": objects([[], [{}]])}, OF_LISTS + "[1]"),
        ({"tool": objects([{"role": "user"}, {}])}, "tool: 1 of 2 values is not Message, the first at [1]"),
    ],
)
def test_items_of_another_type_are_found_at_the_level_of_values(changes: dict[str, Any], problem: str):
    batch = questions(**changes)
    validate(batch, Questions)
    assert report(batch) == [problem]


def test_what_is_no_column_of_objects_is_found_by_its_structure():
    assert not conforms(questions(answer=np.array([1.0, 2.0])), Questions)
    assert not conforms(questions(answer="a"), Questions)
    assert not conforms(questions(answer=None), Questions)


def test_types_that_cannot_be_checked_accept_anything():
    with checking("values"):
        validate(Batch({name: objects([1, {}]) for name in ("bare", "grader", "anything", "object_")}), Any_)
        validate(Batch(item=objects([1, "a"])), Pairs)
        assert not conforms(Batch({name: np.zeros(2) for name in ("bare", "grader", "anything", "object_")}), Any_)


class Late(BatchRecord):
    x: Column["Later"]  # the quotes are what is tested
    y: Column["list[Later] | None"]


class Later: ...


def test_names_of_later_classes_and_type_variables_are_resolved():
    validate(Batch(item=objects(["a"])), Pairs[str], level="values")
    validate(Batch(item=objects([None, 2])), Pairs[int | None], level="values")
    with pytest.raises(SchemaError, match=r"batch\.item  1 of 1 values is not str"):
        validate(Batch(item=objects([1])), Pairs[str], level="values")
    validate(Batch(x=objects([Later()]), y=objects([[Later()]])), Late, level="values")
    with pytest.raises(SchemaError, match=r"batch\.y  1 of 1 values is not list\[Later\] or None"):
        validate(Batch(x=objects([Later()]), y=objects([[1]])), Late, level="values")


def test_what_cannot_be_a_column_is_refused():
    column: Any = Column
    with pytest.raises(DeclarationError, match=r"a column has one type of items, got 2; Column\[int \| str\]"):
        column[int, str]
    with pytest.raises(DeclarationError, match="columns in a union cannot be told apart"):

        class Either(BatchRecord):
            x: Column[str] | Column[int]


def test_a_list_for_such_a_field_becomes_a_column():
    batch: Any = Questions
    made = batch(answer=["a", "b"], messages=[[], [{"role": "user"}]], score=[1.5, 2])
    assert [made[name].dtype for name in ("answer", "messages", "score")] == [np.dtype(object)] * 3
    rows = Questions.from_rows([{"answer": "a", "messages": [], "score": 1.0}] * 2)
    assert rows.messages.shape == rows.score.shape == (2,)


def test_rows_and_joins_keep_the_items():
    batch = validate(questions(), Questions)
    assert batch[1].answer == "b"
    assert cat([batch[1:], batch[:1]]).answer.tolist() == ["b", "a"]


def test_examples_and_strategies_have_items_of_the_type():
    made = example(Questions, N=3)
    assert made.answer.tolist() == ["text 0", "text 1", "text 2"]
    assert made.tool is not None
    assert made.tool.tolist() == [{"role": "user"}] * 3
    assert made.tool[0] is not made.tool[1]


@given(batches(Questions))
def test_drawn_batches_have_items_of_the_type(batch: Questions):
    with checking("values"):
        validate(batch, Questions)


@given(st.lists(st.text() | st.integers() | st.none()))
def test_the_rule_holds_where_isinstance_does(items: list[Any]):
    class Texts(BatchRecord):
        text: Column[str]

    right = all(isinstance(item, str) for item in items)
    with checking("values"), nullcontext() if right else pytest.raises(SchemaError):
        validate(Batch(text=objects(items)), Texts)


def test_a_column_at_run_time_is_an_array_of_objects():
    column: NDArray[np.object_] = objects(["a"])
    assert type(column) is np.ndarray
    assert column.dtype == object


NUMBERS = {
    "NDArray[Any]": NDArray[Any], "np.ndarray": np.ndarray, "a shape": np.ndarray[tuple[int, ...], np.dtype[Any]],
    "optional": NDArray[Any] | None, "in a union": NDArray[Any] | Tensor, "in a dict": dict[str, NDArray[Any]],
}  # fmt: skip
RAGGED_ITEMS = {
    "lists": [[0.0, 0.0], [0.1]], "nested lists": [[[1], [2, 3]], [[4], [5, 6]]],
    "lists as objects": objects([[1, 2], [3, 4]]), "arrays": objects([np.zeros(2), np.zeros(3)]),
    "numbers as objects": objects([1, 2]), "numbers and None": objects([1.0, None]), "None": objects([None, None]),
    "dicts": objects([{"a": 1}, {}]), "text and numbers": objects(["a", 1]),
    "masked": np.ma.array([[1], [1, 2]], mask=[0, 0], dtype=object),
}  # fmt: skip


def declared(hint: Any) -> Any:
    return type("Local", (BatchRecord,), {"__annotations__": {"x": hint, "info": Batch | NDArray[Any]}})


@pytest.mark.parametrize("hint", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("items", RAGGED_ITEMS.values(), ids=RAGGED_ITEMS)
def test_objects_are_refused_where_arrays_of_numbers_are_declared(hint, items):
    schema = declared(hint)
    info = objects([{"a": 1}, {}])
    batch = Batch(x={"y": items} if hint is NUMBERS["in a dict"] else items, info=info)
    assert not conforms(batch, schema)
    for check in (
        lambda: validate(batch, schema),
        lambda: extend(Batch(info=info), schema, x=batch.x),
        lambda: convert(batch, schema),
        lambda: validate(schema(**batch.__dict__), schema),
        lambda: validate(batch.copy(), Batch) and validate(batch, schema | ActBatch),
    ):
        with pytest.raises(SchemaError, match="dtype object, expected numbers or text"):
            check()
    way_out = declared(Ragged if items is RAGGED_ITEMS["lists"] else Column[Any])
    mended = Ragged.from_lists({"v": items}) if items is RAGGED_ITEMS["lists"] else items
    validate(Batch(x=mended, info=info), way_out)


@pytest.mark.parametrize("hint", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize(
    "values",
    [["a", "b"], ["a", None], [b"a", b"b"], [], np.zeros(2, "M8[s]"), np.zeros((2, 3)), [True, False]],
    ids=str,
)
def test_text_dates_and_numbers_pass_as_any_array(hint, values):
    batch = Batch(x={"y": values} if hint is NUMBERS["in a dict"] else values, info=objects([{}] * len(values)))
    assert conforms(batch, declared(hint))


def test_observations_of_different_lengths_are_refused_and_infos_are_not():
    ragged = json.loads("[[0.0, 0.0], [0.1]]")
    fields = {name: np.zeros(2) for name in ("obs", "obs_next", "act", "rew")}
    fields |= {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool), "info": objects([{"a": 1}, {}])}
    right = RolloutBatch(**fields)
    validate(right, RolloutBatchProtocol)
    for name in ("obs", "obs_next", "act", "rew"):
        with pytest.raises(SchemaError, match=rf"batch\.{name}  dtype object"):
            validate(RolloutBatch(**{**fields, name: ragged}), RolloutBatchProtocol)
    graphs = RolloutBatch[NDArray[Any], NDArray[np.object_]]
    validate(Batch(right, obs=objects([object(), object()]), obs_next=objects([object(), object()])), graphs)


def test_json_and_rows_of_different_lengths_are_refused():
    schema = declared(NDArray[Any])
    model = pydantic.TypeAdapter(schema)
    assert model.validate_json('{"x": [[1, 2], [3, 4]], "info": [{}, {}]}').x.shape == (2, 2)
    with pytest.raises(pydantic.ValidationError, match="dtype object"):
        model.validate_json('{"x": [[1, 2], [3]], "info": [{}, {}]}')
    rows = [{"x": [1, 2], "info": {"a": 1}}, {"x": [3, 4], "info": {"a": 2}}]
    assert validate(schema.from_rows(rows), schema).x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(SchemaError, match="dtype object"):
        validate(schema.from_rows([rows[0], {"x": [3], "info": {"a": 2}}]), schema)
