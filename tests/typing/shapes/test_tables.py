"""The tables of operations against numpy and torch: what they say of a call is what the call gives."""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.typing.shapes import arguments
from tests.typing.shapes.drawing import Draw, Draws, K, L, N, RestError
from typedbatch._program.arrays import losses, tables
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    ASKED,
    Arguments,
    Array,
    Axis,
    Literal,
    Many,
    MismatchError,
    Several,
    Value,
)

KINDS: dict[str, tuple[dict[str, Any], dict[str, Draw]]] = {
    "function": (tables.FUNCTIONS, arguments.FUNCTIONS),
    "method": (tables.METHODS, arguments.METHODS),
    "attribute": (tables.ATTRIBUTES, arguments.ATTRIBUTES),
}
MEANT = re.compile(
    r"against every other|do not go element by element|moves no data"
    r"|^(mse|l1|smooth_l1|huber)_loss: .* not the same shape|^binary_cross_entropy.*\b1\b.* not the same shape"
    r"|^(gather|scatter|scatter_add): an index .*: [NLK] against [NLK]$"
)
"""What runs, and is reported: it is never meant."""


def homes(kind: str, name: str) -> list[Any]:
    """Where an operation is found."""
    if kind == "function" and name in losses.FUNCTIONS:
        return [torch.nn.functional]  # torch has some of the same name that nobody is meant to call
    places = (np, torch, torch.nn.functional, torch.nn.utils.rnn) if kind == "function" else (np.ndarray, torch.Tensor)
    return [place for place in places if hasattr(place, name)]


ENTRIES = [
    pytest.param(kind, name, home, id=f"{kind}-{getattr(home, '__name__', '')}.{name}")
    for kind, (table, _) in KINDS.items()
    for name in table
    for home in homes(kind, name)
]


def test_each_operation_is_tried() -> None:
    for kind, (table, draws) in KINDS.items():
        assert sorted(table.keys() - draws.keys()) == [], kind


def test_each_operation_is_there() -> None:
    for kind, (table, _) in KINDS.items():
        assert [name for name in table if not homes("function", name) + homes("method", name)] == [], kind


class Wrong(AssertionError):
    """What a table says is not so."""


def check(kind: str, name: str, home: Any, random: Random) -> bool:
    """Try a call; whether it ran and something was known of its shape."""
    table, draws = KINDS[kind]
    is_torch = home not in (np, np.ndarray)
    draw = Draws(random, is_torch)
    call = draws[name](draw)
    told = Arguments(
        tuple(map(draw.blurred, call.given)), {key: draw.blurred(value) for key, value in call.named.items()}, is_torch
    )
    if kind != "function" and not isinstance(told.given[0], Array):
        told = Arguments((call.given[0], *told.given[1:]), told.named, is_torch)
    real = [*map(draw.real, call.given)], {key: draw.real(value) for key, value in call.named.items()}
    report, out = None, None
    try:
        out = table[name](told)
    except MismatchError as error:
        report = error
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = getattr(home, name)
            given = real[0][0] if kind == "attribute" else found(*real[0], **real[1])
            given = getattr(given, name) if kind == "attribute" else given
    except Exception:  # noqa: BLE001 numpy's and torch's are of all kinds
        return report is not None
    shown = f"{name}({', '.join(map(str, told.given))}, {told.named})"
    if report is not None:
        if MEANT.search(str(report)):
            return True
        raise Wrong(f"{shown} runs, and is reported: {report}")
    try:
        wrong = differs(draw, out, given)
    except RestError:
        return True
    if wrong:
        raise Wrong(f"{shown}: {wrong}")
    return out is not None and not (isinstance(out, Array) and out.axes is None)


def differs(draw: Draws, told: Value, real: Any) -> str:
    """How a value differs from what is known of it."""
    if told is None:
        return ""
    if isinstance(told, (Several, Many)):
        if not isinstance(real, (tuple, list)):
            return f"{type(real).__name__} is not {told}"
        items = [told.item] * len(real) if isinstance(told, Many) else [*told.items]
        for axis in (axis for item in items if isinstance(item, Array) for axis in item.axes or ()):
            draw.count(axis.size or number(1))  # raises RestError if a size cannot be divided
        if len(items) != len(real):
            return f"{len(real)} are not {len(items)}"
        return next(filter(None, (differs(draw, one, other) for one, other in zip(items, real, strict=True))), "")
    if isinstance(told, Size):
        return "" if real == draw.count(told) else f"{real} is not {told}"
    if isinstance(told, Literal):
        return "" if real == told.value else f"{real} is not {told}"
    assert isinstance(told, Array)
    kind = torch.Tensor if told.torch else (np.ndarray, np.generic)
    if not isinstance(real, kind):
        return f"{type(real).__name__} is not {told}"
    dtype = str(real.dtype).removeprefix("torch.")
    if told.dtypes is not None and dtype not in told.dtypes:
        return f"{dtype} is not in {sorted(told.dtypes)}"
    if told.axes is None:
        return ""
    sizes = [None if axis.size is None else draw.count(axis.size) for axis in told.axes]
    fits = len(sizes) == len(real.shape) and all(
        size is None or size == other for size, other in zip(sizes, real.shape, strict=True)
    )
    return "" if fits else f"{tuple(real.shape)} is not {told}"


@pytest.mark.parametrize(("kind", "name", "home"), ENTRIES)
def test_what_a_table_says_is_so(kind: str, name: str, home: Any) -> None:
    @settings(max_examples=max(10, settings().max_examples // 6))
    @given(random=st.randoms(use_true_random=False))
    def run(random: Random) -> None:
        check(kind, name, home, random)

    run()


MODULES = {"function-torch.cpu", "function-torch.cuda"}
"""Of the same name as a method."""
NOT_SHAPED = {
    *("method-Tensor.cuda", "method-ndarray.sort", "method-ndarray.view", "function-torch.dropout"),
    *("function-numpy.pad", "function-torch.batch_norm"),
}
"""There is no GPU, numpy sorts in place, views dtypes and pads by pairs; what is meant is torch.nn.functional's."""


def test_the_tables_know_something_of_each_operation() -> None:
    unknown = set()
    for entry in ENTRIES:
        kind, name, home = entry.values
        if not any(check(kind, name, home, Random(seed)) for seed in range(60)):
            unknown.add(entry.id)
    assert unknown <= MODULES | NOT_SHAPED


def tensor(*sizes: Size | int | None, dtype: str = "float32", torch: bool = True) -> Array:
    axes = [Axis(number(size) if isinstance(size, int) else size) for size in sizes]
    return Array(tuple(axes), frozenset({dtype}), torch)


def asked(*sizes: Size | int) -> Array:
    """A tensor whose axes of 1 were put there."""
    found = tensor(*sizes)
    return found.shaped([ASKED if axis.one else axis for axis in found.axes or ()])


def run(name: str, *given: Value, method: bool = False, torch: bool = True, **named: Value) -> Value:
    table = tables.METHODS if method else tables.FUNCTIONS
    return table[name](Arguments(given, named, torch))


def shape(value: Value) -> str:
    return str(value) if isinstance(value, Array) else repr(value)


INDEX = tensor(N, K, dtype="int64")
LEFT_OUT = number(-1)
REPORTS: list[tuple[str, tuple[Value, ...], dict[str, Value], str]] = [
    ("sum", (tensor(N, L), number(2)), {}, "sum: no axis 2 in (N, L)"),
    ("mean", (tensor(N, dtype="int64"),), {}, "mean: torch has it for floats only, these are int64"),
    ("stack", (Several((tensor(N), tensor(L))),), {}, "stack: (N,) and (L,) do not fit: N against L"),
    ("cat", (Several((tensor(N, 2), tensor(N))), number(1)), {}, "cat: (N, 2) and (N,) have other numbers of axes"),
    ("cat", (Several((tensor(N, 2), tensor(N, 3))),), {}, "cat: (N, 2) and (N, 3) do not fit: 2 against 3"),
    ("split", (tensor(6), Several((number(2), number(3)))), {}, "split: sizes that are 5 together, of 6"),
    (
        "reshape",
        (tensor(N, L), Several((L, N))),
        {},
        "reshape of (N, L) to (L, N) moves no data: it renames the axes; transpose swaps them",
    ),
    ("reshape", (tensor(N, 3), Several((N, number(2)))), {}, "reshape: (N, 3) to (N, 2): 3*N elements, 2*N asked"),
    ("reshape", (tensor(7), Several((number(2), LEFT_OUT))), {}, "reshape: (7,) to (2, -1): 7 is not a multiple of 2"),
    ("squeeze", (tensor(N), number(3)), {}, "squeeze: no axis 3 in (N,)"),
    ("permute", (tensor(N, L), Several((number(0),))), {}, "permute: 1 places for the axes of (N, L)"),
    (
        "gather",
        (tensor(N, L - number(1), K), number(2), tensor(N, L, 1, dtype="int64")),
        {},
        "gather: an index of (N, L, 1) for (N, L-1, K): L against L-1",
    ),
    ("gather", (tensor(N, K), number(1), tensor(N, K)), {}, "gather: an index of float32"),
    (
        "gather",
        (tensor(N, K), number(1), tensor(N, dtype="int64")),
        {},
        "gather: an index of (N,) for (N, K): 1 axes against 2",
    ),
    ("embedding", (tensor(N), tensor(L, K)), {}, "embedding: an index of float32"),
    ("one_hot", (tensor(N),), {}, "one_hot: classes are integers, these are floats"),
    ("mse_loss", (tensor(N, 1), tensor(N)), {}, "mse_loss: (N, 1) and (N,) are not the same shape"),
    ("mse_loss", (tensor(N, 1), tensor(N, K)), {}, "mse_loss: (N, 1) and (N, K) are not the same shape"),
    ("huber_loss", (tensor(N, 1), tensor(N, 3)), {}, "huber_loss: (N, 1) and (N, 3) are not the same shape"),
    (
        "binary_cross_entropy",
        (tensor(N), tensor(N, 1)),
        {},
        "binary_cross_entropy: (N,) and (N, 1) are not the same shape",
    ),
    (
        "cross_entropy",
        (tensor(N, L, K), tensor(N, L, dtype="int64")),
        {},
        "cross_entropy: classes of (N, L) for (N, L, K), (N, K) is expected",
    ),
    (
        "cross_entropy",
        (tensor(N, K), tensor(N, 1, dtype="int64")),
        {},
        "cross_entropy: classes of (N, 1) for (N, K), (N,) is expected",
    ),
    ("cross_entropy", (tensor(N, K), tensor(N)), {}, "cross_entropy: classes are integers, these are float32"),
    ("matmul", (tensor(N, 3), tensor(4, K)), {}, "@: (N, 3) and (4, K) do not fit: 3 against 4"),
    ("matmul", (tensor(N, K, dtype="bool"), tensor(K)), {}, "@: bool and float32"),
    ("linear", (tensor(N, 3), tensor(K, 4)), {}, "linear: (N, 3) and (K, 4) do not fit: 3 against 4"),
    ("einsum", (Literal("nk,nk->n"), tensor(N, K), tensor(L, K)), {}, "einsum: n of nk,nk->n is N and L"),
    ("einsum", (Literal("nk->n"), tensor(N)), {}, "einsum: nk of nk->n is for 2 axes, not (N,)"),
    ("expand_as", (tensor(N, 3), tensor(N, 4)), {}, "expand_as: (N, 3) does not fit (N, 4): 3 against 4"),
    ("topk", (tensor(N), N + number(1)), {}, "topk: N+1 of N"),
]


@pytest.mark.parametrize(("name", "given", "named", "text"), REPORTS, ids=[text for *_, text in REPORTS])
def test_what_does_not_fit_is_reported(name: str, given: tuple[Value, ...], named: dict[str, Value], text: str) -> None:
    with pytest.raises(MismatchError) as raised:
        run(name, *given, method=name not in tables.FUNCTIONS, **named)
    assert str(raised.value) == text


KNOWN: list[tuple[str, tuple[Value, ...], dict[str, Value], str]] = [
    ("mse_loss", (asked(N, 1), tensor(N, K)), {"reduction": Literal("none")}, "(N, K)"),
    ("mse_loss", (tensor(N), tensor()), {"reduction": Literal("none")}, "(N,)"),
    ("gather", (tensor(N, L, K), number(2), tensor(N, L - number(1), 1, dtype="int64")), {}, "(N, L-1, 1)"),
    ("reshape", (tensor(N, L, 3), Several((N * L, LEFT_OUT))), {}, "(L*N, 3)"),
    ("reshape", (tensor(N, L - number(1)), Several((LEFT_OUT, L - number(1)))), {}, "(N, L-1)"),
    ("reshape", (tensor(N, L), Several((N, number(1), L))), {}, "(N, 1, L)"),
    ("reshape", (tensor(N, None), Several((None, N))), {}, "(?, N)"),
    ("sum", (tensor(N, L), None), {}, "(...)"),
    ("sum", (tensor(N, L), number(1)), {"out": tensor(N)}, "(...)"),
    ("cat", (Many(tensor(N, 3)), number(1)), {}, "(N, ?)"),
    ("stack", (Many(tensor(N, 3)), number(1)), {}, "(N, ?, 3)"),
    ("einsum", (Literal("...k->..."), tensor(N, K)), {}, "(...)"),
    ("arange", (L - number(1),), {}, "(L-1,)"),
    ("arange", (N - L,), {}, "(?,)"),
    ("one_hot", (INDEX,), {}, "(N, K, ?)"),
    ("squeeze", (tensor(N, K), number(1)), {}, "(...)"),
    ("squeeze", (tensor(N, 1), number(1)), {}, "(N,)"),
]


@pytest.mark.parametrize(("name", "given", "named", "text"), KNOWN)
def test_what_is_known(name: str, given: tuple[Value, ...], named: dict[str, Value], text: str) -> None:
    assert shape(run(name, *given, **named)) == text


def test_an_axis_that_is_kept_was_asked_for() -> None:
    for out in (
        run("sum", tensor(N, K), number(1), keepdim=Literal(True)),
        run("unsqueeze", tensor(N), number(1)),
        run("reshape", tensor(N), Several((N, number(1)))),
        run("view", tensor(N), N, number(1), method=True),
    ):
        assert isinstance(out, Array)
        assert out.axes == (Axis(N), ASKED)


def test_a_place_that_was_gathered_is_not_asked_for() -> None:
    out = run("gather", tensor(N, K), number(1), asked(N, 1).typed(frozenset({"int64"})))
    assert isinstance(out, Array)
    assert out.axes == (Axis(N), Axis(number(1)))


def test_arrays_of_the_other_library_are_not_followed() -> None:
    assert shape(run("sum", tensor(N, torch=False))) == "(...)"
    assert shape(run("tensor", tensor(N, dtype="float64", torch=False))) == "(N,)"
