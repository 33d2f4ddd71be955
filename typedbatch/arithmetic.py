"""Arithmetic on batches: field by field, by name, on numpy and torch leaves alike."""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from typedbatch.errors import LeafError, StructureError, TypedBatchError
from typedbatch.leaves import (
    ARRAY,
    BATCH,
    NONE,
    NUMBER,
    SCALAR,
    TENSOR,
    Tree,
    describe,
    is_reserved,
    kind_of,
    new_tree,
    write_obstacle,
)
from typedbatch.memory import Change, Taken, duplicate, write_together
from typedbatch.rows import leaves

T = TypeVar("T", bound=Tree)
Operation = Callable[..., Any]

_REFUSALS: Final = (TypeError, ValueError, RuntimeError, ArithmeticError, IndexError)
"""What numpy and torch raise over operands; ``FloatingPointError``, which a user asks numpy for, stays what it is."""


def apply(operation: Operation, *operands: Any) -> Any:
    """``operation`` on the leaves of the operands that are Batches; other operands go to every leaf as they are.

    Raises:
        StructureError: the Batches have different fields, or one has a Batch where another has a leaf.
        LeafError: a leaf cannot take part, as text in an addition.
    """
    trees = [operand for operand in operands if kind_of(operand) is BATCH]
    first = trees[0]
    for other in trees[1:]:
        _check_same_names(first, other)
    fields = {}
    for name in first.__dict__:
        values = [o.__dict__[name] if kind_of(o) is BATCH else o for o in operands]
        try:
            fields[name] = _apply_leaf(operation, values, trees, name)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except FloatingPointError:
            raise
        except _REFUSALS as error:
            said = ", ".join(map(describe, values))
            raise LeafError(f"{_name(operation)} cannot take {said}: {error}", name) from error
    return new_tree(type(first), fields)


def _apply_leaf(operation: Operation, values: list[Any], trees: list[Tree], name: str) -> Any:
    fields = [tree.__dict__[name] for tree in trees]
    kinds = set(map(kind_of, fields))
    if kinds == {BATCH}:
        return apply(operation, *values)
    if kinds <= {NONE} or all(field is None or is_reserved(field) for field in fields):
        return fields[0]
    if BATCH in kinds:
        raise StructureError(f"{_name(operation)} pairs fields by name, got {' and '.join(map(describe, fields))}")
    if not kinds <= {ARRAY, TENSOR, SCALAR}:
        raise LeafError(f"{_name(operation)} needs numbers, got {', '.join(map(describe, fields))}")
    tensor = next((value for value in values if kind_of(value) is TENSOR), None)
    return operation(*(values if tensor is None else [_on_torch(value, tensor) for value in values]))


def _check_same_names(first: Tree, other: Tree) -> None:
    if first.__dict__.keys() != other.__dict__.keys():
        one, two = (", ".join(map(repr, tree.__dict__)) or "no fields" for tree in (first, other))
        raise StructureError(f"the batches have different fields: {one} and {two}; values are paired by name")


class _Step(NamedTuple):
    """A leaf to write into, and the other operand, which fits."""

    path: str
    fields: dict[str, Any]
    name: str
    leaf: Any
    value: Any


def apply_in_place(operation: Operation, tree: T, other: Any) -> T:
    """``operation`` writes into every leaf of ``tree``, once it is known that all can take the result."""
    taken = Taken(leaf for _, leaf in leaves(tree.__dict__, once=True))
    with np.errstate(all="ignore"):
        steps = list(_plan(operation, tree, other, taken, ""))
    together, careful = taken.shared([step.leaf for step in steps]), _numbers_may_raise()
    ready = {
        i: _result(operation, step)
        for i, step in enumerate(steps)
        if i in together or (kind_of(step.leaf) is not TENSOR and (careful or not _is_plain(step.leaf)))
    }
    write_together([Change(steps[i].path, steps[i].leaf, ready[i]) for i in sorted(together)])
    for i, step in enumerate(steps):
        if i not in ready:
            step.fields[step.name] = operation(step.leaf, step.value)
        elif kind_of(step.leaf) is SCALAR:
            step.fields[step.name] = ready[i]
        elif i not in together:
            step.leaf[...] = ready[i]
    return tree


def _is_plain(leaf: Any) -> bool:
    """Whether nothing but the shape and the dtype decides if numpy can write the result; objects may each refuse."""
    return kind_of(leaf) is ARRAY and not leaf.dtype.hasobject


def _result(operation: Operation, step: _Step) -> Any:
    leaf = step.leaf if kind_of(step.leaf) is SCALAR else duplicate(step.leaf)
    try:
        return operation(leaf, step.value)
    except FloatingPointError:
        raise
    except _REFUSALS as error:
        raise _refused_in_place(operation, step.leaf, step.value, error).under(step.path) from error


def _refused_in_place(operation: Operation, leaf: Any, value: Any, error: Exception) -> LeafError:
    return LeafError(f"{_name(operation)} in place cannot take {describe(leaf)} and {describe(value)}: {error}")


def _plan(operation: Operation, tree: Tree, other: Any, taken: Taken, prefix: str) -> Iterator[_Step]:
    """What to do for each leaf, once dtypes, shapes and memory are known to allow it."""
    if kind_of(other) is BATCH:
        _check_same_names(tree, other)
    for name, leaf in tree.__dict__.items():
        value = other.__dict__[name] if kind_of(other) is BATCH else other
        try:
            if _stays(leaf, value, kind_of(other) is BATCH):
                continue
            if kind_of(leaf) is BATCH and (value is other or kind_of(value) is BATCH):
                yield from _plan(operation, leaf, value, taken, f"{prefix}{name}.")
            else:
                # as in b += b.a: what is about to change is copied first, unless it is the very leaf it meets
                given = value + 0 if value is not leaf and taken.meets(value) else value
                fitting = _fitting(operation, leaf, given)
                yield _Step(prefix + name, tree.__dict__, name, leaf, fitting)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__


def _stays(leaf: Any, value: Any, paired: bool) -> bool:
    """``None`` and reserved fields take part in nothing, unless the other Batch has numbers there."""
    return all(one is None or is_reserved(one) for one in ((leaf, value) if paired else (leaf,)))


def _fitting(operation: Operation, leaf: Any, value: Any) -> Any:
    """The other operand as the leaf can take it; raises an error if it cannot."""
    if kind_of(leaf) not in (ARRAY, TENSOR, SCALAR) or not _is_operand(value) or kind_of(value) is BATCH:
        raise LeafError(f"{_name(operation)} needs numbers, got {describe(leaf)} and {describe(value)}")
    if kind_of(leaf) is TENSOR:
        value = _on_torch(value, leaf)
    elif kind_of(value) is TENSOR:
        raise LeafError(f"{describe(leaf)} cannot become a tensor in place; to_torch_() first, or make a new batch")
    try:
        _try_out(operation, leaf, value)
    except _REFUSALS as error:
        raise _refused_in_place(operation, leaf, value, error) from error
    return value


def _numbers_may_raise() -> bool:
    """Whether numpy may raise over the numbers, as 1 / 0: by ``np.errstate``, or because warnings are errors."""
    modes = set(np.geterr().values())
    return not modes.isdisjoint({"raise", "call"}) or (
        "warn" in modes
        and any(action == "error" and issubclass(RuntimeWarning, what) for action, _, what, *_ in warnings.filters)
    )


def _try_out(operation: Operation, leaf: Any, value: Any) -> None:
    # On one-element stand-ins: the same dtypes, so the same casting rules, without a copy of the data.
    if np.broadcast_shapes(tuple(leaf.shape), tuple(np.shape(value))) != tuple(leaf.shape):
        raise ValueError("the result would have another shape")
    if kind_of(leaf) is not SCALAR and write_obstacle(leaf):
        raise ValueError(write_obstacle(leaf))
    if not _has_float(leaf) and not _has_float(value):
        if operation is operator.ipow and _any(value < 0):
            raise ValueError("an integer to a negative power is no integer")
        if kind_of(leaf) is TENSOR and operation in (operator.ifloordiv, operator.imod) and _any(value == 0):
            raise ValueError("an integer divided by zero is no integer")
    operation(_stand_in(leaf), _stand_in(value))


def _any(flags: Any) -> bool:
    return bool(flags.any()) if kind_of(flags) in (ARRAY, TENSOR, SCALAR) else bool(flags)


def _has_float(value: Any) -> bool:
    if kind_of(value) is TENSOR:
        return bool(value.is_floating_point() or value.is_complex())
    return np.asarray(value).dtype.kind not in "biu"


def _stand_in(value: Any) -> Any:
    kind = kind_of(value)
    if kind is TENSOR:
        return value.new_ones(())
    return np.ones((), value.dtype) if kind is ARRAY else value


def _on_torch(value: Any, tensor: Any) -> Any:
    """An array that meets a tensor becomes one, so that torch computes and not numpy."""
    if kind_of(value) not in (ARRAY, SCALAR):
        return value
    from typedbatch.tensors import to_tensor

    return to_tensor(value, device=tensor.device)


def _name(operation: Operation) -> str:
    return getattr(operation, "__name__", str(operation))


# numpy's ufuncs that torch has under another name; the others have the same one
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
    """A numpy ufunc on batches, as ``np.exp(batch)`` or ``array * batch``; torch leaves use torch's counterpart."""

    def on_leaves(*values: Any) -> Any:
        if any(kind_of(value) is TENSOR for value in values):
            return _torch_ufunc(ufunc)(*values, **kwargs)
        return ufunc(*values, **kwargs)

    on_leaves.__name__ = f"np.{ufunc.__name__}"
    if ufunc.nout == 1:
        return apply(on_leaves, *inputs)
    return tuple(apply(_nth(on_leaves, i), *inputs) for i in range(ufunc.nout))


def _nth(operation: Operation, i: int) -> Operation:
    @functools.wraps(operation)
    def nth(*values: Any) -> Any:
        return operation(*values)[i]

    return nth


def _torch_ufunc(ufunc: np.ufunc) -> Operation:
    torch = sys.modules["torch"]
    function = getattr(torch, _TORCH_NAMES.get(ufunc.__name__, ufunc.__name__), None)
    if function is None:
        raise LeafError(f"torch has no counterpart of np.{ufunc.__name__}; convert with to_numpy() first")

    def call(*values: Any, **kwargs: Any) -> Any:
        met = next(value for value in values if kind_of(value) is TENSOR)
        return function(*(v if kind_of(v) is TENSOR else _number_beside(v, met) for v in values), **kwargs)

    return call


def _number_beside(number: Any, tensor: Any) -> Any:
    """What is no tensor as one; a Python number in the dtype that torch computes it in beside ``tensor``."""
    torch = sys.modules["torch"]
    dtype = torch.result_type(tensor, number) if kind_of(number) is NUMBER else None
    return torch.as_tensor(number, dtype=dtype, device=tensor.device)


class Arithmetic(Tree):
    """The operators of a Batch.

    ``batch + other`` works on every numeric leaf. ``other`` is a number, an array or tensor (broadcast against each
    leaf as numpy and torch do), or a Batch with the same fields, which are paired by name. The result is a new Batch
    that shares nothing; the in-place forms write into the existing arrays, and change nothing when any field cannot
    take the result. ``None`` and reserved fields stay.

    Raises:
        StructureError: two Batches with different fields; in place, fields on the same memory with different results.
        LeafError: a leaf that does not compute, as text, or an integer field that would have to hold a float.
    """

    __array_priority__ = 1000  # torch and old numpy ask this before they take over ``array * batch``

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
        return _unary(operator.neg, self)

    def __pos__(self: T) -> T:
        return _unary(operator.pos, self)

    def __abs__(self: T) -> T:
        return _unary(operator.abs, self)


def _is_operand(value: object) -> bool:
    return kind_of(value) in (BATCH, ARRAY, TENSOR, SCALAR) or isinstance(value, (bool, int, float, complex))


def _unary(operation: Operation, tree: T) -> T:
    result: T = apply(operation, tree)
    return result


def _binary(tree: T, operation: Operation, left: Any, right: Any) -> T:
    result: object = apply(operation, left, right) if _is_operand(left) and _is_operand(right) else NotImplemented
    return cast("T", result)  # or NotImplemented, which Python takes for "ask the other operand"


def _in_place(operation: Operation, tree: T, other: Any) -> T:
    result: object = apply_in_place(operation, tree, other) if _is_operand(other) else NotImplemented
    return cast("T", result)
