"""Arrays in jaxtyping's words, and sizes of one name, in the arguments and the result of a checked function."""

from __future__ import annotations

import asyncio
import pickle
import re
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Le
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from tests.validation.helpers import Array, fields
from typedbatch import Batch, BatchRecord, Finite, RolloutBatch, SchemaError, SeparateSizes, checked, checking, conforms
from typedbatch.errors import CallError, DeclarationError
from typedbatch.schema import schema_of
from typedbatch.schema.explain import find_problems

Row = Float[np.ndarray, "N"]


class Inputs(BatchRecord):
    ids: Int[np.ndarray, "N R"]
    adv: Float[np.ndarray, "N R"]


class Side(BatchRecord):
    ids: Int[np.ndarray, "N T"]
    mask: Shaped[np.ndarray, "N T"]


class Pairs(BatchRecord):
    chosen: Annotated[Side, SeparateSizes]
    rejected: Annotated[Side, SeparateSizes]


def inputs(n: int, r: int) -> Any:
    return Batch(ids=np.zeros((n, r), int), adv=np.zeros((n, r)))


def side(n: int, t: int, of_mask: int | None = None) -> Any:
    return Batch(ids=np.zeros((n, t), int), mask=np.zeros((n, t if of_mask is None else of_mask)))


zeros: Any = torch.zeros


def report(function: Any, *args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(CallError) as caught:
        function(*args, **kwargs)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    text = re.sub(r"\n? +\S+/test_sizes_of_calls\.py:\d+", "", str(caught.value))  # it may be on a line of its own
    return text.splitlines()


@checked
def loss(
    logp: Annotated[Float[Tensor, "N R"], Finite, Le(0)], batch: Inputs, ref: Float[Tensor, "N R"] | None = None
) -> Float[Tensor, "N"]:
    return logp.sum(-1) if ref is None else zeros(len(logp) + 1)


BOUNDARY = "tests.validation.test_sizes_of_calls.{}()"


def test_what_fits_passes():
    assert loss(zeros(2, 3), inputs(2, 3)).shape == (2,)
    assert loss(batch=inputs(2, 3), logp=zeros(2, 3), ref=None).shape == (2,)


def test_an_array_is_held_against_the_batch():
    assert report(loss, zeros(2, 4), inputs(2, 3)) == [
        "the arguments of loss() are not as declared (2 problems)",
        f"  boundary   arguments `logp`, `batch` of {BOUNDARY.format('loss')}",
        "  got        logp torch f32[2,4]  batch Inputs[N=2]  ids i64[2,3]  adv f64[2,3]",
        "  logp       R is 4 here, but 3 in batch.ids  [TB302 dimension-conflict]",
        "  batch.ids  R is 3 here, but 4 in logp  [TB302 dimension-conflict]",
        "             Annotated[Inputs, SeparateSizes] gives it sizes of its own",
    ]


@pytest.mark.parametrize(
    ("logp", "lines"),
    [
        (
            np.zeros((2, 3)),
            [
                "  logp  f64[2,3], expected a torch tensor of floating type, shape (N, R)  [TB202 wrong-kind]",
                "        it is of the numpy kind",
            ],
        ),
        (zeros(2, 3).int(), ["  logp  dtype int32, expected a floating type  [TB201 wrong-dtype]"]),
        (zeros(2), ["  logp  shape (2,), expected shape (N, R)  [TB303 wrong-shape]"]),
        (None, ["  logp  None, expected a torch tensor of floating type, shape (N, R)  [TB202 wrong-kind]"]),
    ],
    ids=["kind", "dtype", "rank", "none"],
)
def test_an_array_by_itself(logp: Any, lines: list[str]):
    found = report(loss, logp, inputs(2, 3))
    assert found[0] == "the arguments of loss() are not as declared (1 problem)"
    assert found[1] == f"  boundary   argument `logp` of {BOUNDARY.format('loss')}"
    assert found[3:] == lines


def test_the_result_is_held_against_the_arguments():
    assert report(loss, zeros(2, 3), inputs(2, 3), zeros(2, 3)) == [
        "the result of loss() is not as declared (1 problem)",
        f"  boundary   return value of {BOUNDARY.format('loss')}",
        "  got        return torch f32[3]",
        "  return  N is 3 here, but 2 in logp, batch.ids, ref  [TB302 dimension-conflict]",
    ]


def test_rules_of_arrays_are_asked_on_the_level_of_values():
    loss(zeros(2, 3) + 1, inputs(2, 3))
    with checking("values"):
        assert report(loss, zeros(2, 3) + 1, inputs(2, 3))[3:] == [
            "  logp  6 of 6 values are not <= 0, the first at [0, 0]  [TB401 wrong-values]"
        ]


def test_a_batch_that_is_wrong_by_itself_is_reported_as_ever():
    with pytest.raises(SchemaError, match="batch is not an Inputs") as caught:
        loss(zeros(2, 3), Batch(ids=np.zeros((2, 3), int)))
    assert type(caught.value) is SchemaError


def test_a_call_that_python_refuses_is_refused_by_python():
    with pytest.raises(TypeError, match=r"loss\(\) missing 1 required positional argument: 'batch'"):
        loss(zeros(2, 3))  # type: ignore[call-arg]


def test_two_batches_of_one_record_have_the_sizes_that_it_names():
    @checked
    def both(a: Inputs, b: Inputs) -> None: ...

    @checked
    def own(a: Inputs, b: Annotated[Inputs, SeparateSizes]) -> Annotated[Inputs, SeparateSizes]:
        return inputs(7, 7)  # type: ignore[no-any-return]

    both(inputs(2, 3), inputs(2, 3))
    assert report(both, inputs(2, 3), inputs(4, 3))[3:] == [
        "  a.ids  N is 2 here, but 4 in b.ids  [TB302 dimension-conflict]",
        "         Annotated[Inputs, SeparateSizes] gives it sizes of its own",
        "  b.ids  N is 4 here, but 2 in a.ids  [TB302 dimension-conflict]",
    ]
    assert type(own(inputs(2, 3), inputs(4, 3))) is Inputs


def test_rows_that_no_declaration_names_are_the_batchs_own():
    @checked
    def update(train: RolloutBatch, test: RolloutBatch, weight: Float[np.ndarray, "N"]) -> RolloutBatch:
        return test

    assert len(update(Batch(fields(4)), Batch(fields(2)), np.zeros(3))) == 2  # type: ignore[arg-type]


def test_rows_of_a_result_are_its_own_unless_an_array_names_them():
    @checked
    def sample(batch: Inputs, n: int) -> Inputs:
        return batch[np.arange(n) % len(batch)]

    @checked
    def split(batch: Inputs, n: int) -> tuple[Inputs, Inputs]:
        return batch[:n], batch[n:]

    @checked
    def keep(batch: Inputs, weight: Row) -> Inputs:
        return batch[weight > 0]

    @checked
    def shorten(batch: Inputs) -> Inputs:
        return inputs(len(batch) + 1, 2)  # type: ignore[no-any-return]

    assert len(sample(inputs(2, 3), 7)) == 7
    assert [len(part) for part in split(inputs(5, 3), 2)] == [2, 3]
    assert report(keep, inputs(2, 3), np.array([1.0, 0.0]))[3] == (
        "  return.ids  N is 1 here, but 2 in batch.ids, weight  [TB302 dimension-conflict]"
    )
    assert (
        report(shorten, inputs(2, 3))[3] == "  return.ids  R is 2 here, but 3 in batch.ids  [TB302 dimension-conflict]"
    )


def test_an_array_with_one_value_more_names_the_rows_too():
    @checked
    def keep(batch: Inputs, values: Float[np.ndarray, "N+1"]) -> Inputs:
        return batch[:1]

    with pytest.raises(CallError, match=r"N is 1 here, but 2 in batch\.ids"):
        keep(inputs(2, 3), np.zeros(3))


def test_an_array_of_a_result_names_the_rows_too():
    @checked
    def sample(batch: Inputs, n: int) -> tuple[Inputs, Row]:
        return batch[:n], np.zeros(n)

    @checked
    def only(batch: Inputs, n: int) -> Row:
        return np.zeros(n)

    assert len(sample(inputs(2, 3), 2)) == 2
    with pytest.raises(CallError, match=r"N is 1 here, but 2 in batch\.ids"):
        sample(inputs(2, 3), 1)
    with pytest.raises(CallError, match=r"N is 1 here, but 2 in batch\.ids"):
        only(inputs(2, 3), 1)


def test_batches_in_lists_and_in_star_args_have_sizes_of_their_own():
    @checked
    def join(first: list[Inputs], *others: Inputs) -> int:
        return len(others)

    assert join([inputs(2, 3), inputs(3, 3)], inputs(4, 3), inputs(5, 3)) == 2


def test_every_kind_of_parameter_and_parts_of_a_tuple():
    @checked
    def many(
        a: Float[np.ndarray, "N"],
        /,
        *xs: Float[np.ndarray, "N"],
        k: Float[np.ndarray, "d"],
        **kw: Float[np.ndarray, "N 2*d"],
    ) -> tuple[Row, int, Inputs]:
        return xs[0][: len(kw)], 1, inputs(2, 5)

    one, d = np.zeros(2), np.zeros(3)
    many(one, one, k=d, x=np.zeros((2, 6)), a=np.zeros((2, 6)))
    assert report(many, one, one, np.zeros(3), k=d)[3:] == [
        "  xs[1]  N is 3 here, but 2 in a, xs[0]  [TB302 dimension-conflict]"
    ]
    assert report(many, one, one, k=d, x=np.zeros((2, 5)))[3:] == [
        "  x  a size of 5, expected 2*d = 6, as d is 3  [TB304 wrong-size]"
    ]
    assert (
        report(many, one, one, k=d)[3]
        == "  return[0]  N is 0 here, but 2 in a, xs[0], return[2].ids  [TB302 dimension-conflict]"
    )


def test_coroutines_and_constructors():
    @checked
    async def later(x: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        return np.zeros(1)

    class Holder:
        @checked
        def __init__(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]) -> None:
            self.x = x

    with pytest.raises(CallError, match=r"the result of later\(\)"):
        asyncio.run(later(np.zeros(2)))
    with pytest.raises(CallError, match="arguments `x`, `y`"):
        Holder(np.zeros(2), np.zeros(3))


def test_unions_with_numbers_and_what_cannot_be_read_are_left_alone():
    @checked
    def odd(
        x: Float[Tensor, "N"] | float,
        y: Float[np.ndarray, "{n}"],
        z: Float[np.ndarray, "N 2*m"],
        w: Float[Tensor, "N"] | str,
    ) -> None: ...

    for x in (2, 2.0, np.float64(2), zeros(3)):
        odd(x, 1, 2, "")  # type: ignore[arg-type]
    with pytest.raises(CallError):
        odd(zeros(3, 3), 1, 2, "")  # type: ignore[arg-type]


def test_arguments_that_the_function_changes():
    """The sizes are those at the call."""

    @checked
    def shrink(batch: Inputs) -> Float[np.ndarray, "N"]:
        batch.ids, batch.adv = batch.ids[:1], batch.adv[:1]
        return np.zeros(1)

    assert report(shrink, inputs(2, 3))[3:] == [
        "  return  N is 1 here, but 2 in the arguments  [TB302 dimension-conflict]"
    ]


SHAPES = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@given(st.lists(SHAPES, min_size=3, max_size=3), st.integers(0, 2), st.integers(0, 2))
def test_calls_are_refused_exactly_where_a_batch_of_the_same_fields_is(shapes: list[Any], n: int, r: int):
    class Together(BatchRecord):
        x: Float[np.ndarray, "N R"]
        y: Float[np.ndarray, "N *more"]
        z: Float[np.ndarray, "*more R"]
        batch: Inputs

    @checked
    def call(
        x: Float[np.ndarray, "N R"], y: Float[np.ndarray, "N *more"], z: Float[np.ndarray, "*more R"], batch: Inputs
    ) -> None: ...

    given_ = dict(zip("xyz", map(np.zeros, shapes), strict=True))
    fits = conforms(Batch(**given_, batch=inputs(n, r)), Together)
    try:
        call(**given_, batch=inputs(n, r))
    except CallError:
        assert not fits
    else:
        assert fits


def test_own_sizes_of_a_field():
    right = Batch(chosen=side(2, 3), rejected=side(2, 4))
    assert conforms(right, Pairs)
    rows = find_problems(Batch(chosen=side(2, 3), rejected=side(3, 4)), schema_of(Pairs))
    assert (rows[0].path, rows[0].got) == ("chosen.ids", "N is 2 here, but 3 in rejected.ids, rejected.mask")
    inside = find_problems(Batch(chosen=side(2, 3), rejected=side(2, 4, 5)), schema_of(Pairs))
    assert [(problem.path, problem.got) for problem in inside] == [
        ("rejected.ids", "T is 4 here, but 5 in rejected.mask"),
        ("rejected.mask", "T is 5 here, but 4 in rejected.ids"),
    ]


def test_own_sizes_are_for_records_and_not_seen_from_outside():
    with pytest.raises(DeclarationError, match="SeparateSizes is for a nested protocol or record"):

        class Wrong(BatchRecord):
            x: Annotated[Array, SeparateSizes]

    with pytest.raises(DeclarationError, match="computed from 'T', which is not a dimension of any field"):

        class Outside(BatchRecord):
            chosen: Annotated[Side, SeparateSizes]
            twice: Shaped[np.ndarray, "N 2*T"]
