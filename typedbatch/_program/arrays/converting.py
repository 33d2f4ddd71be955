"""Conversions of arrays: to another dtype or library, and to numbers and tuples of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typedbatch._program.arrays.sizes import number
from typedbatch._program.arrays.values import Arguments, Array, DType, Literal, Operation, Scalar, Several, Value

_SHORT: Final = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "double": "float64", "float": "float32", "half": "float16",
    "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip


def _of_array(operation: Callable[[Array, Arguments], Value]) -> Operation:
    """Return an operation on the array that a method is called on."""

    def call(arguments: Arguments) -> Value:
        array = arguments.array()
        return None if array is None else operation(array, Arguments(arguments.given[1:], arguments.named))

    return call


def _size(array: Array, arguments: Arguments) -> Value:
    if array.axes is None or not array.torch:
        return None
    if not arguments.has(0, "dim"):
        return Several(tuple(axis.size for axis in array.axes))
    at = arguments.whole(0, "dim")
    return array.axes[at].size if at is not None and -len(array.axes) <= at < len(array.axes) else None


def _converted(array: Array, arguments: Arguments) -> Value:
    """Return the result of ``x.to(torch.float32)``, ``x.to("cuda")``, ``x.to(other)``."""
    every = [*arguments.given, *arguments.named.values()]
    dtypes = [value for value in every if isinstance(value, DType)]
    if len(dtypes) == 1:
        return array.typed(dtypes[0].dtypes)
    moved = array.torch and all(isinstance(value, Literal) for value in every)
    return array if moved else array.typed(None)


def _retyped(array: Array, arguments: Arguments) -> Value:
    """Return the result of ``x.astype(np.float32)``, ``x.type("torch.FloatTensor")``."""
    dtypes = [value for value in (*arguments.given, *arguments.named.values()) if isinstance(value, DType)]
    return array.typed(dtypes[0].dtypes if len(dtypes) == 1 else None)


def _to(name: str) -> Operation:
    def convert(array: Array, arguments: Arguments) -> Value:
        return array.typed(frozenset({_SHORT[name]}) if array.torch else None)

    return _of_array(convert)


METHODS: Final[dict[str, Operation]] = {
    **{name: _to(name) for name in _SHORT},
    **dict.fromkeys(("astype", "type"), _of_array(_retyped)),
    "to": _of_array(_converted),
    **dict.fromkeys(("numel", "tolist"), lambda arguments: None),
    "dim": _of_array(lambda array, arguments: None if array.axes is None else number(len(array.axes))),
    "item": lambda arguments: Scalar(),
    "numpy": _of_array(lambda array, arguments: Array(array.axes, array.dtypes, torch=False)),
    "size": _of_array(_size),
}
"""Methods of arrays and tensors."""
