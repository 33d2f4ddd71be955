"""Functions that bring numbers to mean 0 and deviation 1, and keep the shape: ``layer_norm`` and its kin."""

from __future__ import annotations

from typing import Final

from typedbatch.mypy.arrays.asking import UnsureError, array_of, axes_of, of_torch, require, understood
from typedbatch.mypy.arrays.values import Arguments, Array, Operation, Value, sizes_of


def require_last(array: Array, shape: Value, name: str) -> Array:
    """Return an array after checking that its last axes are of a shape.

    Raises:
        MisfitError: They certainly are not.
        UnsureError: It is not known.
    """
    axes, last = axes_of(array), sizes_of(shape)
    if last is None or len(last) > len(axes):
        raise UnsureError
    for at, axis in enumerate(last[::-1], 1):
        require(axes, -at, axis.size, name, array)
    return array


def _of_last(name: str) -> Operation:
    """``layer_norm(x, normalized_shape)``: the last axes are of that shape."""

    @understood(5, "normalized_shape", "weight", "bias", "eps")
    def call(arguments: Arguments) -> Value:
        return require_last(array_of(arguments), arguments.get(1, "normalized_shape"), name)

    return call


@understood(8, "num_groups", "weight", "bias", "eps", "running_mean", "running_var", "training", "momentum")
def of_channels(arguments: Arguments) -> Value:
    """``group_norm(x, groups)``, ``batch_norm(x, mean, var)``."""
    return array_of(arguments)


FUNCTIONS: Final[dict[str, Operation]] = {
    "layer_norm": of_torch(_of_last("layer_norm")),
    "rms_norm": of_torch(_of_last("rms_norm")),
    "group_norm": of_torch(of_channels),
    "batch_norm": of_torch(of_channels),
}
METHODS: Final[dict[str, Operation]] = {}
