"""The generated check and the explanation say the same, for random declarations and batches near to them."""

from __future__ import annotations

import textwrap
from types import UnionType
from typing import Annotated, Any, Literal, NewType, Optional, Union, get_args, get_origin

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from jaxtyping import Float, Float32, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Distribution, Normal

from tests.validation.helpers import Array, Cam, CamPos, Refuses, TensorCam, Tree, record
from typedbatch import Batch, BatchRecord, RolloutBatch, SeparateSizes, conforms, schema_of, validate
from typedbatch.errors import Code, SchemaError
from typedbatch.schema import generate
from typedbatch.schema.explain import find_problems
from typedbatch.schema.generate import can_generate, check_of, source_of

Rows = NewType("Rows", int)


class Sized(BatchRecord):
    grid: Shaped[np.ndarray, "N d"]
    flat: Shaped[np.ndarray, "N 2*d"] | None = None


class Sides(BatchRecord):
    d: Annotated[Sized, SeparateSizes]
    grid: Annotated[Sized | CamPos, SeparateSizes]


N, D = 2, 3
f4, i8 = np.zeros((N, D), "f4"), np.zeros(N, "i8")
LEAVES: list[tuple[Any, Any]] = [
    # an annotation, and a value that fits it as long as N is 2, d is 3 and *s nothing
    (Array, f4),
    (Tensor, torch.zeros(N)),
    (NDArray[np.float32], f4),
    (NDArray[np.integer], i8),
    (np.ndarray[tuple[int, int], np.dtype[np.float32]], f4),
    (np.ndarray[tuple[Rows, Literal[2]], Any], np.zeros((5, 2))),
    (Float[np.ndarray, "N"], np.zeros(N)),
    (Float32[np.ndarray, "N d"], f4),
    (Int[np.ndarray, "N *s"], i8),
    (Shaped[np.ndarray, "#N *s"], np.zeros(1)),
    (Shaped[np.ndarray, "d d"], np.zeros((D, D))),
    (Shaped[np.ndarray, "*#s 2"], np.zeros(2)),
    (Shaped[np.ndarray, "N 2*d"], np.zeros((N, 2 * D))),
    (Shaped[np.ndarray, "..."], np.zeros((1, 1))),
    (Shaped[np.ndarray, "#d #d"], np.zeros((1, D))),
    (Float[Tensor, "N d"], torch.zeros(N, D)),
    (Float[Tensor, ""], torch.tensor(0.5)),
    (Float[np.ndarray, ""], np.float64(0.5)),
    (Float[np.ndarray | Tensor, "N"], torch.zeros(N)),
    (torch.nn.Parameter, torch.nn.Parameter(torch.zeros(N))),
    (np.ma.MaskedArray, np.ma.array([1.0, 2.0], mask=[0, 1])),
    (np.integer, np.array(3)),
    (np.floating, np.float32(1.5)),
    (Literal[0, 2], np.array(2)),
    (Literal["a", "b"], "a"),
    (Distribution, Normal(torch.zeros(N), 1.0)),
    (Categorical, Categorical(torch.ones(N, 4))),
    (None, None),
    (str, "text"),
    (Any, np.zeros((N, 1, 1))),
    (Batch, Batch(x=np.zeros(N), y=Batch(z=np.zeros((N, 2))))),
    (Cam, Batch(cam=np.zeros(N))),
    (CamPos, Batch(cam=np.zeros(N), pos=np.zeros(N))),
    (TensorCam, Batch(cam=torch.zeros(N))),
]
FITTING = {repr(hint): value for hint, value in LEAVES}
CHANGED = [np.float32(1.5), torch.tensor(2.0), "a", "c", None, 2, Batch(), object()]
sizes = st.sampled_from([2, 2, 3, 1, 0])


@st.composite
def leaf(draw: Any) -> Any:
    shape = draw(st.lists(sizes, max_size=3))
    dtype = draw(st.sampled_from(["f4", "f4", "f8", "i8", "?", "O"]))
    value = np.zeros(shape, dtype)
    other = draw(st.integers(0, 9))
    if other < 2 and dtype != "O":
        return torch.from_numpy(value)
    if other == 2 and 0 not in shape:
        return Normal(torch.zeros(shape), 1.0) if shape else Categorical(torch.ones(3, 2))
    return draw(st.sampled_from(CHANGED)) if other == 3 else value


def batches(depth: int) -> st.SearchStrategy[Batch]:
    inside = leaf() if depth == 0 else st.one_of(leaf(), leaf(), batches(depth - 1))
    names = st.sampled_from(["a", "b", "cam", "pos", "grid", "flat", "value"])
    return st.dictionaries(names, inside, max_size=3).map(raw)


def raw(fields: dict[str, Any]) -> Batch:
    """A batch with just these values: the constructor would turn some of them into arrays."""
    batch = Batch()
    batch.__dict__.update(fields)
    return batch


def hints(depth: int = 2) -> st.SearchStrategy[Any]:
    simple = st.sampled_from([*(hint for hint, _ in LEAVES), Cam, CamPos, TensorCam, Sized, Sides])
    if depth == 0:
        return simple
    inner = hints(depth - 1)
    return st.one_of(
        simple,
        st.lists(inner, min_size=2, max_size=3).map(union),
        inner.map(lambda hint: dict[str, hint]),
        records(depth - 1),
    )


def union(parts: list[Any]) -> Any:
    out = parts[0]
    for part in parts[1:]:
        out = Optional[out] if part is None else out | part if out is not None else Optional[part]  # noqa: UP045
    return out


def records(depth: int) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(["a", "b", "c"]), hints(depth), min_size=1, max_size=3).map(known)


def known(fields: dict[str, Any]) -> Any:
    """A record of these fields, and of one that has all the names that sizes are computed from."""
    return record(**{"d": Shaped[np.ndarray, "N d"] | None, **fields})


def near(hint: Any, draw: Any) -> Any:
    """A value that fits the annotation, but for a change here and there."""
    if draw(st.integers(0, 19)) == 17:
        return draw(st.one_of(leaf(), batches(1)))
    if isinstance(hint, type) and issubclass(hint, BatchRecord):
        kept = [name for name in hints_of(hint) if draw(st.integers(0, 19)) != 17]
        return raw({name: near(hints_of(hint)[name], draw) for name in kept})
    if get_origin(hint) is Annotated:
        return near(get_args(hint)[0], draw)
    if get_origin(hint) is dict:
        return raw({name: near(get_args(hint)[1], draw) for name in draw(st.sets(st.sampled_from("xyz")))})
    if get_origin(hint) in (Union, UnionType):
        return near(draw(st.sampled_from(get_args(hint))), draw)
    if repr(hint) not in FITTING and hint is not type(None):
        return f4  # an array, of a record's own annotations
    return FITTING.get(repr(hint))


def hints_of(cls: Any) -> dict[str, Any]:
    return {
        name: hint for base in reversed(cls.__mro__) for name, hint in vars(base).get("__annotations__", {}).items()
    }


@given(st.data())
def test_the_check_says_no_exactly_where_there_is_a_problem(data: st.DataObject):
    schema = data.draw(records(2))
    batch = near(schema, data.draw)
    compiled = schema_of(schema)
    assert can_generate(compiled)
    problems = find_problems(batch, compiled)
    assert check_of(compiled)(batch) == (not problems), (schema_of(schema), source_of(compiled), problems)


# Beside Any, an array counts for the rows of the batch, whatever the other alternative says of its shape. One with "*s"
# takes arrays of the other alternative, too, before a later field says what s is.
leaves = st.lists(st.sampled_from(LEAVES), min_size=1, max_size=2).filter(
    lambda pairs: len(pairs) == 1 or not any(hint is Any or "*s" in repr(hint) for hint, _ in pairs)
)


@given(st.dictionaries(st.sampled_from("abcefg"), leaves, min_size=1), st.data())
def test_values_that_fit_pass_and_one_that_does_not_is_the_one_problem(chosen: dict[str, Any], data: st.DataObject):
    schema = known({name: union([hint for hint, _ in pairs]) for name, pairs in chosen.items()})
    values = {"d": f4, **{name: data.draw(st.sampled_from(pairs))[1] for name, pairs in chosen.items()}}
    assert conforms(raw(values), schema)
    name = data.draw(st.sampled_from(list(chosen)))
    absent = {other: value for other, value in values.items() if other != name}
    (problem,) = find_problems(raw(absent), schema_of(schema))
    assert (problem.path, problem.code[:5]) == (name, "TB101")
    hints_here = [hint for hint, _ in chosen[name]]
    problems = find_problems(raw({**values, name: object()}), schema_of(schema))
    assert [problem.path for problem in problems] == ([] if Any in hints_here else [name])
    assert {problem.code for problem in problems} <= {"TB202 wrong-kind", "TB203 wrong-choice"}


@given(batches(2), st.sampled_from([RolloutBatch, Tree, CamPos, Cam | Tree | None, RolloutBatch[Tensor]]))
def test_a_refusal_always_has_a_reason(batch: Batch, schema: Any):
    if conforms(batch, schema):
        assert validate(batch, schema).keys() == batch.keys()
        return
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema)
    assert caught.value.problems
    assert all(problem.code in get_args(Code) for problem in caught.value.problems)


def test_of_the_random_batches_many_are_right_and_many_are_not():
    """The test above would pass on batches that are all wrong; this one counts."""
    verdicts: list[bool] = []

    @given(st.data())
    def count(data: st.DataObject) -> None:
        schema = data.draw(records(1))
        verdicts.append(conforms(near(schema, data.draw), schema))

    count()
    assert len(verdicts) / 10 < sum(verdicts) < len(verdicts) * 9 / 10


def test_the_source_can_be_read():
    class Pixels(BatchRecord):
        cam: Float32[np.ndarray, "N 3 8"]
        pos: Array

    assert generate.__doc__ is not None
    assert textwrap.indent(source_of(schema_of(Pixels)), "    ") in generate.__doc__


def test_ten_thousand_fields_and_ninety_records_deep():
    wide = record(**{f"f{i}": Array for i in range(10_000)})
    assert conforms(Batch({f"f{i}": np.zeros(2) for i in range(10_000)}), wide)
    deep, batch = Cam, Batch(cam=np.zeros(2))
    for _ in range(90):
        deep, batch = record(inner=deep, act=Array), Batch(inner=batch, act=np.zeros(2))
    assert not can_generate(schema_of(deep))
    assert conforms(batch, deep)
    innermost = batch
    while "inner" in innermost:
        innermost = innermost["inner"]
    innermost["cam"] = np.zeros(3)
    assert [problem.path for problem in find_problems(batch, schema_of(deep))] == [f"{'inner.' * 90}cam"]


@pytest.mark.parametrize(
    ("fields", "values", "right"),
    [
        # no name of a dimension anywhere
        ({"lr": np.integer | np.floating}, {"lr": np.array(1)}, True),
        ({"x": Literal[1, 2] | np.floating}, {"x": np.array(0.5)}, True),
        ({"x": Float[np.ndarray, "_"] | Int[np.ndarray, "_"]}, {"x": i8}, True),
        # a name for several sizes, fixed after it was broadcast
        (
            {"x": Float32[np.ndarray, "*#b"], "y": Float32[np.ndarray, "*b"], "w": Float32[np.ndarray, "*b"]},
            {"x": np.zeros(1, "f4"), "y": np.zeros(3, "f4"), "w": np.zeros(4, "f4")},
            False,
        ),
        # sizes without a value
        (
            {"x": Float[np.ndarray, "n k"], "y": Shaped[np.ndarray, "n 12//k"] | Float[np.ndarray, "n 3"]},
            {"x": np.zeros((2, 0)), "y": np.zeros((2, 3))},
            True,
        ),
        ({"x": Shaped[np.ndarray, "n"], "y": Shaped[np.ndarray, "2**n"]}, {"x": np.zeros(2000), "y": i8}, False),
        # an alternative that raises is no reason not to try the next
        (
            {"u": record(v=Tensor) | record(o=Array)},
            {"u": raw({"v": torch.zeros(2).as_subclass(Refuses), "o": f4})},
            True,
        ),
        # of records that differ in sizes alone
        (
            {"x": Array, "p": record(a=Float[np.ndarray, "N"]) | record(a=Float[np.ndarray, "m"])},
            {"x": f4, "p": raw({"a": np.zeros(5)})},
            True,
        ),
        # dicts in dicts
        ({"x": dict[str, dict[str, Tree]]}, {"x": raw({})}, True),
        ({"x": torch.LongTensor}, {"x": torch.zeros(2, dtype=torch.int64)}, True),
        ({"x": torch.LongTensor}, {"x": torch.zeros(2)}, False),
    ],
)
def test_verdicts_that_were_once_wrong(fields: dict[str, Any], values: dict[str, Any], right: bool):
    compiled = schema_of(record(**fields))
    assert check_of(compiled)(raw(values)) is right
    assert (not find_problems(raw(values), compiled)) is right
