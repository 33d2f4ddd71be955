"""Arithmetic on batches: field by field, by name, on numpy and torch leaves alike.

In place, ``batch += other`` is checked as a whole before the first write.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import numpy as np

from typedbatch._core import kinds
from typedbatch._core.kinds import Tree, describe, is_masked, is_placeholder, kind_of, new_sequences, new_tree
from typedbatch._core.lengths import require_rows
from typedbatch._core.memory import duplicate
from typedbatch._core.meta import keep_meta
from typedbatch._ops.writer import Write, once_each, plain_arrays, plain_pairs
from typedbatch.errors import LeafError, StructureError, TypedBatchError, under

T = TypeVar("T", bound=Tree)
Operation = Callable[..., Any]

REFUSALS: Final = (TypeError, ValueError, RuntimeError, ArithmeticError, IndexError)
"""Errors that numpy and torch raise for wrong operands.

``FloatingPointError``, which users turn on by ``np.errstate``, is an ``ArithmeticError`` too, but is not converted.
"""

_BINARY: Final = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_IN_PLACE: Final = {f"i{name}": f"{sign}=" for name, sign in _BINARY.items()}
_SYMBOLS: Final = {**_BINARY, **_IN_PLACE, "neg": "-", "pos": "+", "abs": "abs()"}
_OPERANDS: Final = kinds.NUMERIC | {kinds.BATCH}
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


def symbol(operation: Operation) -> str:
    """Return an operation as it is written in code: ``+=``, ``np.exp``."""
    name: str = getattr(operation, "__name__", str(operation))
    return _SYMBOLS.get(name, name)


def is_operand(value: object) -> bool:
    """Return True for a value that can be an operand of a Batch."""
    return kind_of(value) in _OPERANDS or isinstance(value, (bool, int, float, complex))


def require_same_names(first: Tree, other: Tree) -> None:
    """Raise an error unless two batches have the same fields."""
    if first.__dict__.keys() != other.__dict__.keys():
        one, two = (", ".join(map(repr, tree.__dict__)) or "no fields" for tree in (first, other))
        raise StructureError(f"the batches have different fields: {one} and {two}; values are paired by name")


def on_torch(value: Any, tensor: Any) -> Any:
    """Return an array as a tensor on the device of ``tensor``, so that torch computes; return others unchanged."""
    if kind_of(value) not in (kinds.ARRAY, kinds.SCALAR):
        return value
    from typedbatch._core.tensors import to_tensor

    return to_tensor(value).to(tensor.device)


def apply_in_place(operation: Operation, tree: T, other: Any) -> T:
    """Apply ``operation`` in place to every leaf of ``tree``, after checking that all leaves can take the result."""
    careful = not {"raise", "call"}.isdisjoint(np.geterr().values())  # numpy may raise for values, as 1 / 0
    if not careful and (type(other) in (int, float) or isinstance(other, Tree)):
        pairs = _plain(operation, tree, other)
        if pairs is not None:
            for leaf, value in pairs:
                operation(leaf, value)
            return tree
    writes = once_each([*_plan(operation, tree, other, "")], may_be_itself=True)
    ready: dict[int, Any] = {}
    for i, (path, leaf, value, _) in enumerate(writes):
        kind = kind_of(leaf)  # Values decide if a scalar can be replaced, and objects may refuse.
        if kind is kinds.SCALAR or (kind is kinds.ARRAY and (careful or leaf.dtype.hasobject)):
            try:
                ready[i] = operation(leaf if kind is kinds.SCALAR else duplicate(leaf), value)
            except FloatingPointError:
                raise
            except REFUSALS as error:
                text = f"{symbol(operation)} cannot take {describe(leaf)} and {describe(value)}: {error}"
                raise LeafError(text, path) from error
    for i, (_, leaf, value, where) in enumerate(writes):
        if i not in ready:
            operation(leaf, value)
        elif kind_of(leaf) is kinds.SCALAR:
            fields, name = where
            fields[name] = ready[i]
        else:
            leaf[...] = ready[i]
    return tree


def _plain(operation: Operation, tree: Tree, other: Any) -> Sequence[tuple[Any, Any]] | None:
    """Return the arrays to compute and their operands if dtypes and shapes show that nothing fails; else None."""
    if isinstance(other, Tree):
        pairs = plain_pairs(tree.__dict__, ..., other.__dict__)
    else:
        pairs = [(array, other) for array in plain_arrays(tree.__dict__) or ()]
    kinds = "biufc" if operation is not operator.ipow else "fc"  # An integer to a negative power is not one.
    for dtype in {array.dtype for array, _ in pairs or ()}:
        if dtype.kind not in kinds or not _fits(operation, dtype, dtype if isinstance(other, Tree) else other):
            return None
    return pairs or None


def _plan(operation: Operation, tree: Tree, other: Any, prefix: str) -> Iterator[Write]:
    """Yield a write for each leaf, after checking that dtypes and shapes allow it."""
    paired = kind_of(other) is kinds.BATCH
    if paired:
        require_same_names(tree, other)
    for name, leaf in tree.__dict__.items():
        value = other.__dict__[name] if paired else other
        with under(name):
            # None and reserved fields stay unchanged, unless the other Batch has numbers there.
            if all(one is None or is_placeholder(one) for one in ((leaf, value) if paired else (leaf,))):
                continue
            if kind_of(leaf) is kinds.BATCH and (not paired or kind_of(value) is kinds.BATCH):
                yield from _plan(operation, leaf, value, f"{prefix}{name}.")
            else:
                yield Write(prefix + name, leaf, _fitting(operation, leaf, value), (tree.__dict__, name))


def _fitting(operation: Operation, leaf: Any, value: Any) -> Any:
    """Return the other operand in a form that the leaf can take, or raise an error."""
    if kind_of(leaf) not in kinds.NUMERIC or not is_operand(value) or kind_of(value) is kinds.BATCH:
        raise LeafError(f"{symbol(operation)} needs numbers, got {describe(leaf)} and {describe(value)}")
    if kind_of(leaf) is kinds.TENSOR:
        value = on_torch(value, leaf)
    elif kind_of(value) is kinds.TENSOR:
        raise LeafError(f"{describe(leaf)} cannot become a tensor in place; to_torch_() first, or make a new batch")
    elif not is_masked(leaf) and kinds.mask_obstacle(value):
        raise LeafError(kinds.mask_obstacle(value))
    try:
        shape, given = tuple(leaf.shape), tuple(np.shape(value))
        if given not in ((), shape) and np.broadcast_shapes(shape, given) != shape:
            raise ValueError("the result would have another shape")
        kind = kind_of(leaf)
        if kind is not kinds.SCALAR and kinds.write_obstacle(leaf):
            raise ValueError(kinds.write_obstacle(leaf))
        if not _has_float(leaf) and not _has_float(value):
            if operation is operator.ipow and _any(value < 0):
                raise ValueError("an integer to a negative power is not an integer")
            if kind is kinds.TENSOR and operation in (operator.ifloordiv, operator.imod) and _any(value == 0):
                raise ValueError("an integer divided by zero is not an integer")
        other = value.dtype if kind_of(value) in kinds.NUMERIC else value
        if kind is kinds.SCALAR or not _fits(operation, leaf.dtype, other):
            with np.errstate(all="ignore"):
                operation(leaf if kind is kinds.SCALAR else _sample(leaf.dtype), _sample(other))
    except REFUSALS as error:
        raise LeafError(f"{symbol(operation)} cannot take {describe(leaf)} and {describe(value)}: {error}") from error
    return value


@lru_cache(maxsize=1024, typed=True)
def _fits(operation: Operation, dtype: Any, other: Any) -> bool:
    """Return whether a leaf of ``dtype`` can take the result; ``other`` is a dtype or a number."""
    try:
        with np.errstate(all="ignore"):
            operation(_sample(dtype), _sample(other))
    except REFUSALS:
        return False
    return True


def _sample(dtype: Any) -> Any:
    """Return one element of a dtype, which follows the same casting rules as data; a number is returned unchanged."""
    if isinstance(dtype, np.dtype):
        return np.ones((), dtype)
    return dtype if isinstance(dtype, (int, float, complex)) else sys.modules["torch"].ones((), dtype=dtype)


def _any(flags: Any) -> bool:
    return bool(flags.any()) if kind_of(flags) in kinds.NUMERIC else bool(flags)


def _has_float(value: Any) -> bool:
    if kind_of(value) is kinds.TENSOR:
        return bool(value.is_floating_point() or value.is_complex())
    return np.asarray(value).dtype.kind not in "biu"


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
