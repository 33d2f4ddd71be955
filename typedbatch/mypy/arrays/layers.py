"""torch's layers: what each makes of the tensors that it is called with, by the arguments of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from typedbatch.mypy.arrays.arranging import flatten
from typedbatch.mypy.arrays.asking import Axes, UnsureError, array_of, axes_of, sized, understood
from typedbatch.mypy.arrays.picking import embedding
from typedbatch.mypy.arrays.sizes import Size, differ, number
from typedbatch.mypy.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Layer,
    MisfitError,
    Operation,
    Several,
    Value,
    sizes_of,
)

ONE = number(1)
Constructor = Callable[[Arguments], Operation]


def _require(axes: Axes, at: int, expected: Value, what: str, array: Array) -> None:
    """Refuse an axis of another size than a layer was made for, and one of the steps where it is for features."""
    size = axes[at].size
    if not isinstance(expected, Size) or size is None:
        return
    if differ(size, expected) or (axes[at].step and expected.number is not None):
        raise MisfitError(f"{what} takes {expected} features, got {array}: {size} against {expected}")


def _of_last(name: str, place: int, made: Arguments, inside: str, outside: str | None) -> Operation:
    """Return a layer that replaces the size of the last axis."""
    takes = made.get(place, inside)
    gives = takes if outside is None else made.get(place + 1, outside)

    @understood(1, "input")
    def call(arguments: Arguments) -> Value:
        array = array_of(arguments, 0, "input")
        axes = axes_of(array)
        if not axes:
            raise UnsureError
        _require(axes, -1, takes, name, array)
        return Array((*axes[:-1], sized(gives)), None, torch=True)

    return call


def linear(made: Arguments) -> Operation:
    """``Linear(in_features, out_features)``."""
    return _of_last("Linear", 0, made, "in_features", "out_features")


def _same(made: Arguments) -> Operation:
    """An activation, or dropout."""

    @understood(1, "input")
    def call(arguments: Arguments) -> Value:
        return array_of(arguments, 0, "input").typed(None)

    return call


def embedded(made: Arguments) -> Operation:
    """``Embedding(num_embeddings, embedding_dim)``."""
    rows = sized(made.get(0, "num_embeddings")), sized(made.get(1, "embedding_dim"))

    def call(arguments: Arguments) -> Value:
        return embedding(Arguments((*arguments.given[:1], Array(rows, None, torch=True)), torch=True))

    return call


def flattened(made: Arguments) -> Operation:
    """``Flatten(start_dim=1, end_dim=-1)``."""
    first, last = made.get(0, "start_dim"), made.get(1, "end_dim")
    given = (first if made.has(0, "start_dim") else ONE, last if made.has(1, "end_dim") else number(-1))
    return lambda arguments: flatten(Arguments((*arguments.given[:1], *given), torch=True))


def _normal_of_last(name: str) -> Constructor:
    """``LayerNorm(normalized_shape)``: the last axes are of that shape."""

    def construct(made: Arguments) -> Operation:
        shape = sizes_of(made.get(0, "normalized_shape"))

        @understood(1, "input")
        def call(arguments: Arguments) -> Value:
            array = array_of(arguments, 0, "input")
            axes = axes_of(array)
            if shape is None or len(shape) > len(axes):
                raise UnsureError
            for at, axis in enumerate(shape[::-1], 1):
                _require(axes, -at, axis.size, name, array)
            return array.typed(None)

        return call

    return construct


def _normal_of_channels(name: str, place: int, least: int, word: str) -> Constructor:
    """``BatchNorm1d(num_features)``: the second axis has that size."""

    def construct(made: Arguments) -> Operation:
        channels = made.get(place, word)

        @understood(1, "input")
        def call(arguments: Arguments) -> Value:
            array = array_of(arguments, 0, "input")
            axes = axes_of(array)
            if len(axes) < least:
                raise UnsureError
            _require(axes, 1, channels, name, array)
            return array.typed(None)

        return call

    return construct


# ---- convolutions and pooling ----------------------------------------------------------------------------------------


def _each(made: Arguments, place: int, word: str, default: Size | None, dims: int) -> list[Size | None]:
    """An argument that is one size for all axes, or a tuple of them."""
    value = made.get(place, word) if made.has(place, word) else default
    if isinstance(value, Several) and len(value.items) == dims:
        return [item if isinstance(item, Size) else None for item in value.items]
    return [value if isinstance(value, Size) else None] * dims


def _slid(size: Size | None, window: Sequence[Size | None], what: str) -> Axis:
    """Return how often a window fits into an axis; it is a kernel, stride, padding and dilation."""
    kernel, stride, padding, dilation = window
    if size is None or kernel is None or stride is None or padding is None or dilation is None:
        return UNKNOWN
    room = size + padding + padding - dilation * (kernel - ONE) - ONE
    if room.number is not None and room.number < 0:
        raise MisfitError(f"{what}: a window of {kernel} for an axis of {size}")
    if stride == ONE:
        return Axis(room + ONE)
    if room.number is None or stride.number is None or stride.number < 1:
        return UNKNOWN
    return Axis(number(room.number // stride.number + 1))


def _window(
    name: str, dims: int, made: Arguments, places: dict[str, int], channels: tuple[Value, Value] | None
) -> Operation:
    """A layer that slides a window over the last axes; ``channels`` are those that it takes and gives."""
    kernels = _each(made, places["kernel_size"], "kernel_size", None, dims)
    strides = _each(made, places["stride"], "stride", ONE if channels is not None else None, dims)
    if channels is None and not made.has(places["stride"], "stride"):
        strides = kernels
    paddings = _each(made, places["padding"], "padding", number(0), dims)
    at = places.get("dilation", -1)
    dilations = _each(made, at, "dilation", ONE, dims) if at >= 0 else [ONE] * dims

    @understood(1, "input")
    def call(arguments: Arguments) -> Value:
        array = array_of(arguments, 0, "input")
        axes = axes_of(array)
        if len(axes) not in (dims + 1, dims + 2):
            raise UnsureError
        before = axes[: len(axes) - dims]
        if channels is not None:
            _require(axes, len(before) - 1, channels[0], name, array)
            before = (*before[:-1], sized(channels[1]))
        windows = zip(kernels, strides, paddings, dilations, strict=True)
        after = [_slid(axis.size, window, name) for axis, window in zip(axes[-dims:], windows, strict=True)]
        return Array((*before, *after), None, torch=True)

    return call


_CONV: Final = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 5}
_MAX_POOL: Final = {"kernel_size": 0, "stride": 1, "padding": 2, "dilation": 3}
_MEAN_POOL: Final = {"kernel_size": 0, "stride": 1, "padding": 2}


def _convolution(dims: int) -> Constructor:
    def construct(made: Arguments) -> Operation:
        channels = made.get(0, "in_channels"), made.get(1, "out_channels")
        return _window(f"Conv{dims}d", dims, made, _CONV, channels)

    return construct


def _pool(name: str, dims: int, places: dict[str, int]) -> Constructor:
    def construct(made: Arguments) -> Operation:
        if any(word in made.named for word in ("ceil_mode", "return_indices")) or len(made.given) > len(places):
            return lambda arguments: None
        return _window(f"{name}{dims}d", dims, made, places, None)

    return construct


# ---- sequences -------------------------------------------------------------------------------------------------------


def _recurrent(name: str) -> Constructor:
    """``LSTM(input_size, hidden_size, num_layers=1)``: gives the outputs, and the last states."""

    def construct(made: Arguments) -> Operation:
        takes, hidden = made.get(0, "input_size"), made.get(1, "hidden_size")
        layers = made.get(2, "num_layers") if made.has(2, "num_layers") else ONE
        rows_first, both = made.flag(4, "batch_first"), made.flag(6, "bidirectional")

        @understood(2, "input", "hx")
        def call(arguments: Arguments) -> Value:
            array = array_of(arguments, 0, "input")
            axes = axes_of(array)
            if len(axes) != 3 or both is None or "proj_size" in made.named or len(made.given) > 7:
                raise UnsureError
            _require(axes, -1, takes, name, array)
            ways = number(2 if both else 1)
            width = Axis(hidden * ways) if isinstance(hidden, Size) else UNKNOWN
            rows = UNKNOWN if rows_first is None else axes[0 if rows_first else 1]
            depth = Axis(layers * ways) if isinstance(layers, Size) else UNKNOWN
            state = Array((depth, rows, sized(hidden)), None, torch=True)
            outputs = Array((*axes[:-1], width), None, torch=True)
            return Several((outputs, Several((state, state)) if name == "LSTM" else state))

        return call

    return construct


def _cell(name: str) -> Constructor:
    """``GRUCell(input_size, hidden_size)``: gives the next state."""

    def construct(made: Arguments) -> Operation:
        once = _of_last(name, 0, made, "input_size", "hidden_size")

        def call(arguments: Arguments) -> Value:
            state = once(Arguments(arguments.given[:1], torch=True))
            return Several((state, state)) if name == "LSTMCell" else state

        return call

    return construct


def sequential(made: Arguments) -> Operation:
    """``Sequential(one, other)``: each takes what the one before gives."""

    def call(arguments: Arguments) -> Value:
        value: Value = arguments.get(0)
        for layer in made.given:
            if not isinstance(layer, Layer) or not isinstance(value, Array):
                return None
            value = layer.call(Arguments((value,), torch=True))
        return value

    return call


_SAME: Final[Sequence[str]] = (
    "CELU", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh",
    "Identity", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softmax", "Softmin", "Softplus", "Softsign", "Tanh",
)  # fmt: skip
LAYERS: Final[dict[str, Constructor]] = {
    **dict.fromkeys(_SAME, _same),
    **{f"Conv{dims}d": _convolution(dims) for dims in (1, 2, 3)},
    **{f"MaxPool{dims}d": _pool("MaxPool", dims, _MAX_POOL) for dims in (1, 2, 3)},
    **{f"AvgPool{dims}d": _pool("AvgPool", dims, _MEAN_POOL) for dims in (1, 2, 3)},
    **{
        f"BatchNorm{dims}d": _normal_of_channels(f"BatchNorm{dims}d", 0, 2 if dims == 1 else dims + 2, "num_features")
        for dims in (1, 2, 3)
    },
    "Embedding": embedded,
    "Flatten": flattened,
    "GRU": _recurrent("GRU"),
    "GRUCell": _cell("GRUCell"),
    "GroupNorm": _normal_of_channels("GroupNorm", 1, 2, "num_channels"),
    "LSTM": _recurrent("LSTM"),
    "LSTMCell": _cell("LSTMCell"),
    "LayerNorm": _normal_of_last("LayerNorm"),
    "Linear": linear,
    "RMSNorm": _normal_of_last("RMSNorm"),
    "RNN": _recurrent("RNN"),
    "RNNCell": _cell("RNNCell"),
    "Sequential": sequential,
}
"""Layers by the names of their classes: from the arguments of a constructor to what a call gives."""
