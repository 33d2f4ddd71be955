"""Arithmetic on batches: field by field, by name, on numpy and torch leaves alike."""

from __future__ import annotations

import functools
import operator
import sys
from typing import Any, TypeVar, cast

import numpy as np

from typedbatch._core import kinds
from typedbatch._core.kinds import Tree, describe, is_placeholder, kind_of, new_sequences, new_tree
from typedbatch._core.lengths import require_rows
from typedbatch._core.meta import keep_meta
from typedbatch._ops.inplace import (
    REFUSALS,
    Operation,
    apply_in_place,
    is_operand,
    on_torch,
    require_same_names,
    symbol,
)
from typedbatch.errors import LeafError, StructureError, TypedBatchError

T = TypeVar("T", bound=Tree)


def apply(operation: Operation, *operands: Any) -> Any:
    """Apply ``operation`` to the leaves of operands that are Batches; others are passed on to every leaf."""
    trees = [operand for operand in operands if kind_of(operand) is kinds.BATCH]
    first = trees[0]
    for other in trees[1:]:
        require_same_names(first, other)
    fields = {}
    for name in first.__dict__:
        values = [o.__dict__[name] if kind_of(o) is kinds.BATCH else o for o in operands]
        try:
            fields[name] = _apply_leaf(operation, values, trees, name)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except FloatingPointError:
            raise
        except REFUSALS as error:
            described = ", ".join(map(describe, values))
            raise LeafError(f"{symbol(operation)} cannot take {described}: {error}", name) from error
    out: Tree = new_tree(type(first), fields)
    if type(first.__dict__) is not dict:
        keep_meta(first, out)
    return out


def _apply_leaf(operation: Operation, values: list[Any], trees: list[Tree], name: str) -> Any:
    fields = [tree.__dict__[name] for tree in trees]
    found = set(map(kind_of, fields))
    if found == {kinds.BATCH}:
        return apply(operation, *values)
    if found <= {kinds.NONE} or all(field is None or is_placeholder(field) for field in fields):
        return fields[0]
    if kinds.BATCH in found:
        raise StructureError(f"{symbol(operation)} pairs fields by name, got {' and '.join(map(describe, fields))}")
    if found == {kinds.RAGGED}:
        # An array beside sequences is refused: its rows are one for each sequence, not one for each row of the values.
        first = fields[0]
        if any(not np.array_equal(sequences.sizes, first.sizes) for sequences in fields):
            raise StructureError(f"{symbol(operation)} pairs rows, got {' and '.join(map(describe, fields))}")
        others = [value for value in values if kind_of(value) is not kinds.RAGGED]
        if any(np.ndim(other) for other in others):
            raise StructureError(f"{symbol(operation)} takes a number or a Batch beside {describe(first)}; see .values")
        inner = [value.values if kind_of(value) is kinds.RAGGED else value for value in values]
        result: Tree = apply(operation, *inner)
        try:
            require_rows(result, int(first.sizes.sum()))
        except StructureError as error:
            raise LeafError(f"{symbol(operation)} cannot take {describe(first)}: {error}; see .values") from error
        return new_sequences(type(first), result, first.sizes)
    if not found <= kinds.NUMERIC:
        raise LeafError(f"{symbol(operation)} needs numbers, got {', '.join(map(describe, fields))}")
    tensor = next((value for value in values if kind_of(value) is kinds.TENSOR), None)
    return operation(*(values if tensor is None else [on_torch(value, tensor) for value in values]))


# Ufuncs of numpy that have another name in torch.
_TORCH_NAMES = {
    "equal": "eq",
    "power": "pow",
    "rint": "round",
    "conjugate": "conj_physical",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "degrees": "rad2deg",
    "radians": "deg2rad",
}


def apply_ufunc(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a numpy ufunc, as in ``np.exp(batch)`` or ``array * batch``; for tensors use the same function of torch."""

    def on_leaves(*values: Any) -> Any:
        first = next((value for value in values if kind_of(value) is kinds.TENSOR), None)
        if first is None:
            return ufunc(*values, **kwargs)
        torch = sys.modules["torch"]
        function = getattr(torch, _TORCH_NAMES.get(ufunc.__name__, ufunc.__name__), None)
        if function is None:
            raise LeafError(f"torch has no counterpart of np.{ufunc.__name__}; convert with to_numpy() first")
        tensors = []
        for value in values:  # A Python number gets the dtype in which torch computes it with the tensor.
            dtype = torch.result_type(first, value) if kind_of(value) is kinds.NUMBER else None
            is_tensor = kind_of(value) is kinds.TENSOR
            tensors.append(value if is_tensor else torch.as_tensor(value, dtype=dtype, device=first.device))
        return function(*tensors, **kwargs)

    on_leaves.__name__ = f"np.{ufunc.__name__}"
    if ufunc.nout == 1:
        return apply(on_leaves, *inputs)
    results = []
    for i in range(ufunc.nout):

        @functools.wraps(on_leaves)
        def nth(*values: Any, i: int = i) -> Any:
            return on_leaves(*values)[i]

        results.append(apply(nth, *inputs))
    return tuple(results)


class Arithmetic(Tree):
    """The operators of a Batch.

    ``batch + other`` works on every numeric leaf. ``other`` is a number, an array or tensor (broadcast against each
    leaf as numpy and torch do), or a Batch with the same fields, which are paired by name. The result is a new Batch
    that shares nothing. The in-place forms write into the existing arrays, and change nothing if any field cannot
    take the result. ``None`` and reserved fields stay unchanged.

    Raises:
        StructureError: Two Batches have different fields; in place, fields on the same memory have different results.
        LeafError: A leaf has no arithmetic, as text, or an integer field would have to hold a float.
    """

    __array_priority__ = 1000  # torch and old numpy compare priorities before they compute ``array * batch``.

    def __add__(self: T, other: Any) -> T:
        return _binary(self, operator.add, self, other)

    def __radd__(self: T, other: Any) -> T:
        return _binary(self, operator.add, other, self)

    def __iadd__(self: T, other: Any) -> T:
        return _in_place(operator.iadd, self, other)

    def __sub__(self: T, other: Any) -> T:
        return _binary(self, operator.sub, self, other)

    def __rsub__(self: T, other: Any) -> T:
        return _binary(self, operator.sub, other, self)

    def __isub__(self: T, other: Any) -> T:
        return _in_place(operator.isub, self, other)

    def __mul__(self: T, other: Any) -> T:
        return _binary(self, operator.mul, self, other)

    def __rmul__(self: T, other: Any) -> T:
        return _binary(self, operator.mul, other, self)

    def __imul__(self: T, other: Any) -> T:
        return _in_place(operator.imul, self, other)

    def __truediv__(self: T, other: Any) -> T:
        return _binary(self, operator.truediv, self, other)

    def __rtruediv__(self: T, other: Any) -> T:
        return _binary(self, operator.truediv, other, self)

    def __itruediv__(self: T, other: Any) -> T:
        return _in_place(operator.itruediv, self, other)

    def __floordiv__(self: T, other: Any) -> T:
        return _binary(self, operator.floordiv, self, other)

    def __rfloordiv__(self: T, other: Any) -> T:
        return _binary(self, operator.floordiv, other, self)

    def __ifloordiv__(self: T, other: Any) -> T:
        return _in_place(operator.ifloordiv, self, other)

    def __mod__(self: T, other: Any) -> T:
        return _binary(self, operator.mod, self, other)

    def __rmod__(self: T, other: Any) -> T:
        return _binary(self, operator.mod, other, self)

    def __imod__(self: T, other: Any) -> T:
        return _in_place(operator.imod, self, other)

    def __pow__(self: T, other: Any) -> T:
        return _binary(self, operator.pow, self, other)

    def __rpow__(self: T, other: Any) -> T:
        return _binary(self, operator.pow, other, self)

    def __ipow__(self: T, other: Any) -> T:
        return _in_place(operator.ipow, self, other)

    def __neg__(self: T) -> T:
        return cast("T", apply(operator.neg, self))

    def __pos__(self: T) -> T:
        return cast("T", apply(operator.pos, self))

    def __abs__(self: T) -> T:
        return cast("T", apply(operator.abs, self))


def _binary(tree: T, operation: Operation, left: Any, right: Any) -> T:
    result: object = apply(operation, left, right) if is_operand(left) and is_operand(right) else NotImplemented
    return cast("T", result)  # It may be NotImplemented: then Python tries the other operand.


def _in_place(operation: Operation, tree: T, other: Any) -> T:
    result: object = apply_in_place(operation, tree, other) if is_operand(other) else NotImplemented
    return cast("T", result)
