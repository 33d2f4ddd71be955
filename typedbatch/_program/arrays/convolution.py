"""Sliding windows over the last axes: convolution and pooling; and other changes of the size of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    array_of,
    axes_of,
    of_torch,
    product,
    require,
    sized,
    understood,
)
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Literal,
    MismatchError,
    Operation,
    Several,
    Value,
    is_none,
)

ONE: Final = number(1)
ZERO: Final = number(0)
Constructor = Callable[[Arguments], Operation]
Window = tuple[Size | None, Size | None, Size | None, Size | None]
"""A kernel, its stride, padding and dilation."""


def of_input(of: Callable[[Arguments, Array], Array]) -> Constructor:
    """Return the constructor of a layer with one input, given a function of its arguments and of the input."""

    def construct(made: Arguments) -> Operation:
        @understood(1, "input")
        def call(arguments: Arguments) -> Value:
            return of(made, array_of(arguments, 0, "input"))

        return call

    return construct


def _each(made: Arguments, place: int, word: str, default: Size | None, dims: int) -> list[Size | None]:
    """Return an argument that is one size for all axes, or a tuple of sizes."""
    value = made.get(place, word) if made.has(place, word) else default
    if isinstance(value, Several) and len(value.items) == 1:
        value = value.items[0]
    if isinstance(value, Several) and len(value.items) == dims:
        return [item if isinstance(item, Size) else None for item in value.items]
    return [value if isinstance(value, Size) else None] * dims


def _slid(size: Size | None, window: Window, what: str) -> Axis:
    """Return an axis with one position for each position of a window."""
    kernel, stride, padding, dilation = window
    if size is None or kernel is None or stride is None or padding is None or dilation is None:
        return UNKNOWN
    room = size + padding + padding - dilation * (kernel - ONE) - ONE
    if room.number is not None and room.number < 0:
        raise MismatchError(f"{what}: a window of {kernel} for an axis of {size}")
    if stride == ONE:
        return Axis(room + ONE)
    if room.number is None or stride.number is None or stride.number < 1:
        return UNKNOWN
    return Axis(number(room.number // stride.number + 1))


def _windows(made: Arguments, places: dict[str, int], dims: int, *, strides: bool) -> list[Window]:
    """Return the window along each axis; without ``strides``, a stride that is not given is that of the kernel."""
    kernels = _each(made, places["kernel_size"], "kernel_size", None, dims)
    default = _each(made, places["stride"], "stride", ONE if strides else None, dims)
    is_left_out = not made.has(places["stride"], "stride") or is_none(made.get(places["stride"], "stride"))
    steps = kernels if not strides and is_left_out else default
    paddings = _paddings(made, places, dims, kernels)
    dilations = _each(made, places["dilation"], "dilation", ONE, dims) if "dilation" in places else [ONE] * dims
    return [*zip(kernels, steps, paddings, dilations, strict=True)]


def _paddings(
    made: Arguments, places: dict[str, int], dims: int, kernels: Sequence[Size | None]
) -> Sequence[Size | None]:
    """Return the padding of each axis; ``padding="same"`` is known for kernels of odd size without dilation."""
    said = made.get(places["padding"], "padding")
    if not isinstance(said, Literal) or not isinstance(said.value, str):
        return _each(made, places["padding"], "padding", ZERO, dims)
    if said.value == "valid":
        return [ZERO] * dims
    has_dilation = "dilation" in places and made.has(places["dilation"], "dilation")
    numbers = [None if kernel is None or has_dilation else kernel.number for kernel in kernels]
    return [number(size // 2) if size is not None and size % 2 else None for size in numbers]


def _slide(array: Array, name: str, windows: Sequence[Window], channels: tuple[Value, Value] | None) -> Array:
    """Return an array after windows slid over it; ``channels`` are those of input and output, or None to keep them."""
    axes, dims = axes_of(array), len(windows)
    if len(axes) not in (dims + 1, dims + 2):
        raise UnsureError
    before = axes[: len(axes) - dims]
    if channels is not None:
        require(axes, len(before) - 1, channels[0], name, array)
        before = (*before[:-1], sized(channels[1]))
    after = [_slid(axis.size, window, name) for axis, window in zip(axes[-dims:], windows, strict=True)]
    return Array((*before, *after), None, torch=True)


_CONV: Final = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 5}
_MAX_POOL: Final = {"kernel_size": 0, "stride": 1, "padding": 2, "dilation": 3}
_MEAN_POOL: Final = {"kernel_size": 0, "stride": 1, "padding": 2}


def _convolution(dims: int) -> Constructor:
    def slid(made: Arguments, array: Array) -> Array:
        channels = made.get(0, "in_channels"), made.get(1, "out_channels")
        return _slide(array, f"Conv{dims}d", _windows(made, _CONV, dims, strides=True), channels)

    return of_input(slid)


def _transposed(dims: int) -> Constructor:
    """Return the constructor of ``ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding)``."""
    places = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 8}

    def grown(made: Arguments, array: Array) -> Array:
        axes, windows = axes_of(array), _windows(made, places, dims, strides=True)
        if len(axes) not in (dims + 1, dims + 2):
            raise UnsureError
        require(axes, len(axes) - dims - 1, made.get(0, "in_channels"), f"ConvTranspose{dims}d", array)
        extras = _each(made, 5, "output_padding", ZERO, dims)
        sizes = [axis.size for axis in axes[-dims:]]
        after = [_grown(size, one, extra) for size, one, extra in zip(sizes, windows, extras, strict=True)]
        return Array((*axes[: -dims - 1], sized(made.get(1, "out_channels")), *after), None, torch=True)

    return of_input(grown)


def _grown(size: Size | None, window: Window, extra: Size | None) -> Axis:
    kernel, stride, padding, dilation = window
    if size is None or kernel is None or stride is None or padding is None or dilation is None or extra is None:
        return UNKNOWN
    return Axis((size - ONE) * stride - padding - padding + dilation * (kernel - ONE) + extra + ONE)


def _pool(name: str, dims: int, places: dict[str, int]) -> Constructor:
    def construct(made: Arguments) -> Operation:
        if any(word in made.named for word in ("ceil_mode", "return_indices")) or len(made.given) > len(places):
            return lambda arguments: None
        windows = _windows(made, places, dims, strides=False)

        @understood(1, "input")
        def call(arguments: Arguments) -> Value:
            return _slide(array_of(arguments, 0, "input"), f"{name}{dims}d", windows, None)

        return call

    return construct


def _adaptive(dims: int) -> Constructor:
    """Return the constructor of ``AdaptiveAvgPool2d((1, 1))``, which sets the size of the last axes; None keeps one."""

    def resized(made: Arguments, array: Array) -> Array:
        size, axes = made.get(0, "output_size"), axes_of(array)
        asked = size.items if isinstance(size, Several) else (size,) * dims
        if len(asked) != dims or len(axes) not in (dims + 1, dims + 2) or "return_indices" in made.named:
            raise UnsureError
        last = [axis if is_none(one) else sized(one) for axis, one in zip(axes[-dims:], asked, strict=True)]
        return Array((*axes[:-dims], *last), None, torch=True)

    return of_input(resized)


LAYERS: Final[dict[str, Constructor]] = {
    **{f"Conv{dims}d": _convolution(dims) for dims in (1, 2, 3)},
    **{f"ConvTranspose{dims}d": _transposed(dims) for dims in (1, 2, 3)},
    **{f"MaxPool{dims}d": _pool("MaxPool", dims, _MAX_POOL) for dims in (1, 2, 3)},
    **{f"AvgPool{dims}d": _pool("AvgPool", dims, _MEAN_POOL) for dims in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{dims}d": _adaptive(dims) for kind in ("Avg", "Max") for dims in (1, 2, 3)},
}

# ---- functions ------------------------------------------------------------------------------------------------------


def _conv_function(dims: int) -> Operation:
    """Return the operation ``conv2d(x, weight, bias, ...)``, with weights of ``(out, in / groups, *kernel)``."""
    places = {"kernel_size": 99, "stride": 3, "padding": 4, "dilation": 5}

    @understood(7, "weight", "bias", "stride", "padding", "dilation", "groups")
    def call(arguments: Arguments) -> Value:
        array, weight = array_of(arguments), axes_of(array_of(arguments, 1, "weight"))
        if len(weight) != dims + 2:
            raise UnsureError
        kernel = Several(tuple(axis.size for axis in weight[2:]))
        made = Arguments(arguments.given, {**arguments.named, "kernel_size": kernel}, torch=True)
        groups = arguments.get(6, "groups") if arguments.has(6, "groups") else ONE
        takes = weight[1].size * groups if isinstance(groups, Size) and weight[1].size is not None else None
        return _slide(array, f"conv{dims}d", _windows(made, places, dims, strides=True), (takes, weight[0].size))

    return call


def _pool_function(name: str, dims: int, places: dict[str, int]) -> Operation:
    construct = _pool(name, dims, places)

    @understood(len(places) + 1, *places)
    def call(arguments: Arguments) -> Value:
        made = Arguments(
            arguments.given[1:], {word: arguments.named[word] for word in places if word in arguments.named}
        )
        return construct(made)(Arguments((array_of(arguments),), torch=True))

    return call


def _adaptive_function(dims: int) -> Operation:
    @understood(2, "output_size")
    def call(arguments: Arguments) -> Value:
        made = Arguments((arguments.get(1, "output_size"),))
        return _adaptive(dims)(made)(Arguments((array_of(arguments),), torch=True))

    return call


@understood(4, "pad", "mode", "value")
def pad(arguments: Arguments) -> Value:
    """Return the result of ``pad(x, (left, right, top, bottom))``, whose pairs begin with the last axis."""
    array, by = array_of(arguments), arguments.get(1, "pad")
    axes = list(axes_of(array))
    if not isinstance(by, Several) or len(by.items) % 2:
        raise UnsureError
    if len(by.items) > 2 * len(axes):
        raise MismatchError(f"pad: {len(by.items)} numbers for {array}")
    for at in range(len(by.items) // 2):
        size, around = axes[-1 - at].size, by.items[2 * at : 2 * at + 2]
        for one in around:
            size = size + one if size is not None and isinstance(one, Size) else None
        axes[-1 - at] = Axis(size)
    return array.shaped(axes)


@understood(4, "size", "scale_factor", "mode", "align_corners", "antialias", "recompute_scale_factor")
def interpolate(arguments: Arguments) -> Value:
    """Return the result of ``interpolate(x, size)``, which changes the axes behind those of rows and channels."""
    axes = axes_of(array_of(arguments))
    if len(axes) < 3:
        raise UnsureError
    size, scale = arguments.get(1, "size"), arguments.get(2, "scale_factor")
    count = len(axes) - 2
    if isinstance(size, Size):
        return Array((*axes[:2], *[Axis(size)] * count), None, torch=True)
    if isinstance(size, Several) and len(size.items) == count:
        return Array((*axes[:2], *map(sized, size.items)), None, torch=True)
    if isinstance(scale, Size) and (size is None or is_none(size)):
        last = [Axis(None if axis.size is None else axis.size * scale) for axis in axes[2:]]
        return Array((*axes[:2], *last), None, torch=True)
    return Array((*axes[:2], *[UNKNOWN] * count), None, torch=True)


@understood(5, "kernel_size", "dilation", "padding", "stride")
def unfold(arguments: Arguments) -> Value:
    """Return the result of ``unfold(x, kernel_size)``: patches of images as columns, ``(N, C * patch, patches)``."""
    axes = axes_of(array_of(arguments))
    if len(axes) not in (3, 4):
        raise UnsureError
    places = {"kernel_size": 1, "stride": 4, "padding": 3, "dilation": 2}
    windows = _windows(arguments, places, 2, strides=True)
    slid: Axes = tuple(_slid(axis.size, one, "unfold") for axis, one in zip(axes[-2:], windows, strict=True))
    patch = product([axes[-3], *(Axis(kernel) for kernel, *_ in windows)])
    return Array((*axes[:-3], Axis(patch), Axis(product(slid))), None, torch=True)


FUNCTIONS: Final[dict[str, Operation]] = {
    **{f"conv{dims}d": of_torch(_conv_function(dims)) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d": of_torch(_pool_function("max_pool", dims, _MAX_POOL)) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": of_torch(_pool_function("avg_pool", dims, _MEAN_POOL)) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": of_torch(_adaptive_function(dims)) for dims in (1, 2, 3)},
    "pad": of_torch(pad),
    "interpolate": of_torch(interpolate),
    "unfold": of_torch(unfold),
}


@understood(4, "dimension", "size", "step")
def _unfold_axis(arguments: Arguments) -> Value:
    """Return the result of ``x.unfold(dim, size, step)``, whose last axis is that of the windows."""
    array, at = array_of(arguments), arguments.whole(1, "dimension")
    axes = axes_of(array)
    size, step = arguments.get(2, "size"), arguments.get(3, "step")
    if at is None or not isinstance(size, Size) or not isinstance(step, Size) or not -len(axes) <= at < len(axes):
        raise UnsureError
    places = list(axes)
    places[at] = _slid(axes[at].size, (size, step, ZERO, ONE), "unfold")
    return array.shaped((*places, Axis(size)))


METHODS: Final[dict[str, Operation]] = {"unfold": of_torch(_unfold_axis)}
