"""torch's layers against torch itself: what is known of a call is what the call gives."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.typing.shapes.drawing import K, L, N
from typedbatch._program.arrays.layers import LAYERS, contradiction
from typedbatch._program.arrays.sizes import Name, Size, named, number
from typedbatch._program.arrays.tables import layer_named
from typedbatch._program.arrays.values import Arguments, Array, Axis, Layer, Literal, MismatchError, Several, Value

NUMBERS = {"N": 3, "L": 9, "K": 7}
Made = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a constructor; sizes may be names."""


def count(size: Any) -> int:
    """Return the number that a size stands for."""
    if not isinstance(size, Size):
        return int(size)
    return sum(times * _of_names(names) for names, times in size.terms)


def _of_names(names: tuple[Name, ...]) -> int:
    out = 1
    for name in names:
        out *= NUMBERS[name.text]
    return out


def real(value: Any) -> Any:
    """Return an argument for torch."""
    if isinstance(value, Size):
        return count(value)
    return tuple(map(real, value)) if isinstance(value, tuple) else value


def told(value: Any) -> Value:
    """Return an argument for the table."""
    if isinstance(value, tuple):
        return Several(tuple(map(told, value)))
    if isinstance(value, (bool, str, float)) or value is None:
        return Literal(value)
    return value if isinstance(value, Size) else number(value)


def tensor(*sizes: Any) -> Array:
    """Return what is known of a tensor."""
    axes = (Axis(size if size is None or isinstance(size, Size) else number(size)) for size in sizes)
    return Array(tuple(axes), frozenset({"float32"}), torch=True)


def features(random: Random) -> Any:
    """Draw a number of features, mostly that of the input."""
    return random.choice([K, K, K, 7, 4])


def windows(dims: int, *, takes_channels: bool) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that slides a window, and an input."""

    def draw(random: Random) -> tuple[Made, tuple[Any, ...]]:
        kernel = random.choice([1, 2, 3, tuple(random.choice([1, 2]) for _ in range(dims))])
        named: dict[str, Any] = {"stride": random.choice([1, 2])} if random.random() < 0.5 else {}
        if takes_channels:
            named.update({"padding": random.choice([1, 2])} if random.random() < 0.5 else {})
            named.update({"dilation": 2} if random.random() < 0.3 else {})
        channels = (features(random), random.choice([2, L])) if takes_channels else ()
        spatial = tuple(random.choice([L, 8, 9, None]) for _ in range(dims))
        rows = (random.choice([N, None]),) if random.random() < 0.8 else ()
        return ((*channels, kernel), named), (*rows, K, *spatial)

    return draw


def of_last(*names: Any, ranks: tuple[int, ...] = (1, 2, 3)) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that is made with features and more, and an input whose last axis has them."""

    def draw(random: Random) -> tuple[Made, tuple[Any, ...]]:
        rank = random.choice(ranks)
        return ((features(random), *names), {}), (*(random.choice([N, L, 3, None]) for _ in range(rank - 1)), K)

    return draw


def recurrent(random: Random) -> tuple[Made, tuple[Any, ...]]:
    """Draw a recurrent layer, and an input."""
    flags = {"batch_first": random.random() < 0.5, "bidirectional": random.random() < 0.5}
    return ((features(random), 5, random.choice([1, 2])), flags), (L, random.choice([N, 3]), K)


def channels(rank: int, *before: Any) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that is made for channels, and an input."""
    return lambda random: (((*before, features(random)), {}), (N, K, *(5 for _ in range(rank - 2))))


def channels_only(rank: int) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that is made without arguments, and an input."""
    return lambda random: (((), {}), (N, K, *(5 for _ in range(rank - 2))))


DRAWS: dict[str, Callable[[Random], tuple[Made, tuple[Any, ...]]]] = {
    "Linear": of_last(5),
    "LayerNorm": of_last(),
    "RMSNorm": of_last(),
    "Embedding": lambda random: (((20, random.choice([K, 4])), {}), (N, L)),
    "Flatten": lambda random: (((), {}), (N, L, K)),
    "LSTM": recurrent,
    "GRU": recurrent,
    "RNN": recurrent,
    **{name: of_last(5, ranks=(2,)) for name in ("LSTMCell", "GRUCell", "RNNCell")},
    **{f"Conv{dims}d": windows(dims, takes_channels=True) for dims in (1, 2, 3)},
    **{f"{kind}Pool{dims}d": windows(dims, takes_channels=False) for kind in ("Max", "Avg") for dims in (1, 2, 3)},
    **{f"BatchNorm{dims}d": channels(dims + 2) for dims in (1, 2, 3)},
    "GroupNorm": channels(3, 1),
}


def transposed(dims: int) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that makes images larger, and an input."""

    def draw(random: Random) -> tuple[Made, tuple[Any, ...]]:
        more: dict[str, Any] = {"stride": 2} if random.random() < 0.5 else {}
        more.update({"output_padding": 1} if more and random.random() < 0.5 else {})
        more.update({"padding": 1} if random.random() < 0.3 else {})
        spatial = tuple(random.choice([L, 4]) for _ in range(dims))
        return ((features(random), 5, random.choice([2, 3])), more), (N, K, *spatial)

    return draw


def adaptive(dims: int) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that makes images of one size, and an input."""
    sizes = [3, tuple([2] * dims), *[tuple([None] * dims)] * (dims > 1)]
    return lambda random: (((random.choice(sizes),), {}), (N, K, *[L] * dims))


def normal(dims: int) -> Callable[[Random], tuple[Made, tuple[Any, ...]]]:
    """Return what draws a layer that brings each image to mean 0, and an input."""
    return lambda random: (((7,), {}), (N, K, *[L] * dims))


DRAWS |= {f"ConvTranspose{dims}d": transposed(dims) for dims in (1, 2, 3)}
DRAWS |= {f"Adaptive{kind}Pool{dims}d": adaptive(dims) for kind in ("Avg", "Max") for dims in (1, 2, 3)}
DRAWS |= {f"InstanceNorm{dims}d": normal(dims) for dims in (1, 2, 3)}
DRAWS["Softmax2d"] = channels_only(4)
DRAWS["Threshold"] = lambda random: (((0.5, 1.0), {}), (N, K))
DRAWS["GLU"] = lambda random: (((), {}), (N, random.choice([4, 6, 2 * 3])))
DRAWS["Unflatten"] = lambda random: (((1, random.choice([(2, 3), (3, -1)])), {}), (N, 6))
DRAWS["TransformerEncoderLayer"] = lambda random: (((4, 2), {}), (L, N, 4))
OF_SEVERAL = {
    "Bilinear", "MultiheadAttention", "Sequential", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder",
}  # fmt: skip
"""Layers of several tensors or of other layers, which have tests of their own."""
DRAWS |= {name: lambda random: (((-1,), {}), (N, K)) for name in ("LogSoftmax", "Softmax", "Softmin")}
DRAWS |= {f"Dropout{dims}d": channels_only(dims + 2) for dims in (1, 2, 3)}
for _name in LAYERS.keys() - DRAWS.keys() - OF_SEVERAL:
    DRAWS[_name] = lambda random: (((), {}), (N, random.choice([K, 4])))


def differs(known: Value, found: Any) -> str:
    """Return how a value differs from what is known of it."""
    if isinstance(known, Several):
        return next(filter(None, map(differs, known.items, found)), "")
    if not isinstance(known, Array) or known.axes is None:
        return ""
    sizes = [None if axis.size is None else count(axis.size) for axis in known.axes]
    fits = len(sizes) == found.dim() and all(
        size in (None, other) for size, other in zip(sizes, found.shape, strict=True)
    )
    return "" if fits else f"{tuple(found.shape)} is not {known}"


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_what_is_known_of_a_layer_is_so(name: str) -> None:
    seen: set[bool] = set()

    @settings(max_examples=max(20, settings().max_examples // 3))
    @given(random=st.randoms(use_true_random=False))
    def run(random: Random) -> None:
        (given_, named_), sizes = DRAWS[name](random)
        layer = getattr(nn, name)(*map(real, given_), **named_)
        constructed = LAYERS[name](
            Arguments(tuple(map(told, given_)), {key: told(value) for key, value in named_.items()}, torch=True)
        )
        shape = [5 if size is None else count(size) for size in sizes]
        dtype = torch.int64 if name == "Embedding" else torch.float32
        given_tensor = tensor(*sizes).typed(frozenset({"int64"})) if name == "Embedding" else tensor(*sizes)
        try:
            found = layer(torch.zeros(shape, dtype=dtype))
        except (RuntimeError, ValueError):
            return
        known = constructed(Arguments((given_tensor,), torch=True))  # What runs is not reported.
        assert not differs(known, found), f"{name}{given_}{named_} of {shape}: {differs(known, found)}"
        seen.add(known is not None)

    run()
    assert True in seen


LINEAR = LAYERS["Linear"](Arguments((number(32), number(2)), torch=True))
REPORTS = [
    ("Linear", (32, 2), (N, 64), "Linear takes 32 features, got (N, 64): 64 against 32"),
    ("LayerNorm", (32,), (N, 64), "LayerNorm takes 32 features, got (N, 64): 64 against 32"),
    ("Conv2d", (3, 8, 5), (N, 4, 84, 84), "Conv2d takes 3 features, got (N, 4, 84, 84): 4 against 3"),
    ("Conv1d", (3, 8, 5), (N, 3, 4), "Conv1d: a window of 5 for an axis of 4"),
    ("BatchNorm1d", (32,), (N, 64), "BatchNorm1d takes 32 features, got (N, 64): 64 against 32"),
    ("GRU", (32, 8), (L, N, 64), "GRU takes 32 features, got (L, N, 64): 64 against 32"),
    ("GRUCell", (32, 8), (N, 64), "GRUCell takes 32 features, got (N, 64): 64 against 32"),
]


@pytest.mark.parametrize(("name", "made", "sizes", "text"), REPORTS, ids=[name for name, *_ in REPORTS])
def test_what_does_not_fit_is_reported(name: str, made: tuple[int, ...], sizes: tuple[Any, ...], text: str) -> None:
    call = LAYERS[name](Arguments(tuple(map(number, made)), torch=True))
    with pytest.raises(MismatchError) as raised:
        call(Arguments((tensor(*sizes),), torch=True))
    assert str(raised.value) == text


def test_layers_in_sequence() -> None:
    parts = [
        ("Conv2d", (4, 32, 8, 4)), ("ReLU", ()), ("Conv2d", (32, 64, 4, 2)), ("Flatten", ()), ("Linear", (5184, 6)),
    ]  # fmt: skip
    layers = [Layer(LAYERS[name](Arguments(tuple(map(number, made)), torch=True))) for name, made in parts]
    call = LAYERS["Sequential"](Arguments(tuple(layers), torch=True))
    assert str(call(Arguments((tensor(N, 4, 84, 84),), torch=True))) == "(N, 6)"
    call = LAYERS["Sequential"](Arguments((*layers[3:],), torch=True))
    with pytest.raises(MismatchError, match=r"Linear takes 5184 features, got \(N, 3136\): 3136 against 5184"):
        call(Arguments((tensor(N, 64, 7, 7),), torch=True))


@pytest.mark.parametrize(
    ("widths", "text"),
    [
        (((4, 32), (64, 1)), "Linear takes 64 features, got (?, 32): 32 against 64"),
        (((4, 32), (32, 8), (9, 1)), "Linear takes 9 features, got (?, 8): 8 against 9"),
        (((4, 32), (32, 1)), None),
        ((), None),
    ],
)
def test_layers_that_do_not_fit_each_other(widths: tuple[tuple[int, int], ...], text: str | None) -> None:
    layers = [Layer(LAYERS["Linear"](Arguments(tuple(map(number, both)), torch=True))) for both in widths]
    error = contradiction(Arguments(tuple(layers), torch=True))
    assert (None if error is None else str(error)) == text


def test_layers_that_may_be_anything_do_not_contradict_each_other() -> None:
    linear = Layer(LAYERS["Linear"](Arguments((number(4), number(32)), torch=True)))
    other = Layer(lambda arguments: None, owner="a class of the program")
    assert contradiction(Arguments((linear, other, linear), torch=True)) is None
    assert contradiction(Arguments((linear, None, linear), torch=True)) is None


def test_losses_are_the_functions_of_their_names() -> None:
    construct = layer_named("MSELoss")
    assert construct is not None
    mean, each = construct(Arguments(())), construct(Arguments((), {"reduction": Literal("none")}))
    assert isinstance(mean, Layer)
    assert isinstance(each, Layer)
    assert str(mean.call(Arguments((tensor(N), tensor(N)), torch=True))) == "()"
    assert str(each.call(Arguments((tensor(N), tensor(N)), torch=True))) == "(N,)"
    with pytest.raises(MismatchError, match=r"mse_loss: \(N, 1\) and \(N,\) are not the same shape"):
        mean.call(Arguments((tensor(N, 1), tensor(N)), torch=True))


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_first_state_has_the_rows_and_the_width_of_the_layer(name: str) -> None:
    call = LAYERS[name](Arguments((number(32), number(8)), torch=True))
    for state, text in ((tensor(1, 5, 8), "rows of the state"), (tensor(1, 4, 9), "widths of the state")):
        held = Several((state, state)) if name == "LSTM" else state
        with pytest.raises(MismatchError, match=text):
            call(Arguments((tensor(L, 4, 32), held), torch=True))


def test_names_are_those_of_the_constructor() -> None:
    hidden = named(Name("hidden", 5))
    call = LAYERS["Linear"](Arguments((), {"in_features": K, "out_features": hidden}, torch=True))
    assert str(call(Arguments((tensor(N, K),), torch=True))) == "(N, hidden)"


SEVERAL: list[tuple[str, tuple[Any, ...], dict[str, Any], list[tuple[Any, ...]]]] = [
    ("Bilinear", (7, 9, 5), {}, [(N, K), (N, L)]),
    ("MultiheadAttention", (4, 2), {}, [(L, N, 4), (K, N, 4), (K, N, 4)]),
    ("MultiheadAttention", (4, 2), {"batch_first": True}, [(N, L, 4), (N, K, 4), (N, K, 4)]),
    ("MultiheadAttention", (4, 2), {"kdim": 6, "vdim": 8}, [(L, N, 4), (K, N, 6), (K, N, 8)]),
    ("MultiheadAttention", (4, 2), {}, [(L, 4), (K, 4), (K, 4)]),
    ("TransformerDecoderLayer", (4, 2), {}, [(L, N, 4), (K, N, 4)]),
]


@pytest.mark.parametrize(("name", "made", "by_name", "inputs"), SEVERAL)
def test_layers_of_several_inputs(
    name: str, made: tuple[Any, ...], by_name: dict[str, Any], inputs: list[tuple[Any, ...]]
) -> None:
    known = LAYERS[name](
        Arguments(tuple(map(told, made)), {key: told(value) for key, value in by_name.items()}, torch=True)
    )
    layer = getattr(nn, name)(*made, **by_name)
    found = layer(*(torch.zeros([count(size) for size in sizes]) for sizes in inputs))
    value = known(Arguments(tuple(tensor(*sizes) for sizes in inputs), torch=True))
    assert value is not None
    assert not differs(value, found)
    wrong = [*inputs[:-1], (*inputs[-1][:-1], 11)]
    with pytest.raises(MismatchError, match="features, got"):
        known(Arguments(tuple(tensor(*sizes) for sizes in wrong), torch=True))


def test_layers_that_are_stacked() -> None:
    one = Layer(LAYERS["TransformerEncoderLayer"](Arguments((number(4), number(2)), torch=True)))
    call = LAYERS["TransformerEncoder"](Arguments((one, number(3)), torch=True))
    assert str(call(Arguments((tensor(L, N, 4),), torch=True))) == "(L, N, 4)"
    with pytest.raises(MismatchError, match=r"TransformerEncoderLayer takes 4 features, got \(L, N, 5\)"):
        call(Arguments((tensor(L, N, 5),), torch=True))
