"""Options of a resolved annotation: the kinds of value that a field takes."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Number, Real
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from typedbatch._core.declaration import SeparateSizes
from typedbatch._core.kinds import ARRAY, BATCH, DISTRIBUTION, KINDS, NONE, OBJECT, RAGGED, TENSOR, TENSORDICT, Kind
from typedbatch._markers import has_no_gradient
from typedbatch._report import cut
from typedbatch._typing import ArrayOrTensor, Distribution
from typedbatch.errors import DeclarationError
from typedbatch.ragged import Ragged
from typedbatch.rules import rules_in
from typedbatch.schema.annotations import alternatives, bare, resolve, show
from typedbatch.schema.column import ItemsAre
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, shape_of_text
from typedbatch.schema.dtypes import BUILTINS, Dtypes, jaxtyping_dtypes, scalar_dtypes
from typedbatch.schema.fields import NO_DIMS, WITH_ROWS, Field, Option

_ARRAY_LIKE: Any = resolve(ArrayLike, {}, {})  # it is a type alias from Python 3.12 on

Nested = Callable[[Any], Option | None]
"""A function that returns the option for a protocol, a record or Batch, and None for any other annotation."""
_NUMPYS: dict[Any, str] = {bool: "bool_", int: "int64", float: "float64", complex: "complex128"}
"""The numpy types to which Python's numbers are converted."""


def options(hint: Any, nested: Nested) -> tuple[Option, ...]:
    """Return the kinds of value that a field with this annotation takes; empty for any value."""
    hint, metadata = bare(hint)
    shared, own_sizes, no_gradient = tuple(rules_in(metadata)), SeparateSizes in metadata, has_no_gradient(metadata)
    if type(hint) is type(_ARRAY_LIKE) and hint == _ARRAY_LIKE:  # an array or tensor of any shape
        return Option(ARRAY, shape=shape_of_text("..."), rules=shared), Option(TENSOR, shape=shape_of_text("..."))
    out: list[Option] = []
    anything = False
    _require_true(hint)
    for part in alternatives(hint):
        kind, metadata = bare(part)
        rules = (*shared, *rules_in(metadata))
        anything |= kind is Any or kind is object or kind is Final
        if anything and rules:
            raise DeclarationError("rules need a kind of value that they apply to, as in Annotated[Array, Finite]")
        refuses = no_gradient or has_no_gradient(metadata)
        out += (
            replace(option, rules=rules, no_gradient=refuses and option.kind is TENSOR) if rules or refuses else option
            for option in _options(kind, nested)
        )
        own_sizes |= SeparateSizes in metadata
    if sum(isinstance(rule.holds, ItemsAre) for option in out for rule in option.rules) > 1:
        raise DeclarationError("columns in a union cannot be told apart; write the union inside, as Column[int | str]")
    if any(option.kind is BATCH for option in out):  # Information that may be a batch may also be an array of dicts.
        out = [replace(option, no_objects=False) for option in out]
    if own_sizes:
        out = [replace(option, own_sizes=option.schema is not None) for option in out]
    if own_sizes and not any(option.own_sizes for option in out):
        raise DeclarationError(f"SeparateSizes is for a nested protocol or record, not for {_short(hint)}")
    return () if anything else tuple(out)


def _require_true(hint: Any) -> None:
    """Refuse numbers and sequences unless arrays are declared too, because a batch converts them to arrays."""
    kinds = [bare(part)[0] for part in alternatives(hint)]
    converted: list[Any] = []
    for kind in kinds:
        cls = class_of(kind)
        is_number = isinstance(cls, type) and issubclass(cls, Number) and not issubclass(cls, np.generic)
        if is_number or _is_sequence(kind):
            converted.append(kind)
    if not converted or any(kind is Any or kind is object or _takes_arrays(kind) for kind in kinds):
        return
    shown = _short(converted[0])
    if _is_sequence(converted[0]):
        raise DeclarationError(
            f"a batch converts a sequence to an array, so {shown} would be wrong; write NDArray[np.object_] for an "
            "object per row, Ragged for sequences of different lengths, dict[str, Tensor] for tensors with names, or "
            "the record itself for batches of it"
        )
    scalar = _NUMPYS.get(class_of(converted[0]), "number")
    raise DeclarationError(
        f"a batch converts a number to an array without dimensions, so {shown} would be wrong; write "
        f"NDArray[np.{scalar}] for one number per row, np.{scalar} for a single number, or store it in batch.meta"
    )


def _is_sequence(hint: Any) -> bool:
    cls = class_of(hint)
    if not isinstance(cls, type) or is_jaxtyping(hint):
        return False
    return issubclass(cls, Sequence) and not issubclass(cls, (str, bytes, bytearray, memoryview))


def _takes_arrays(hint: Any) -> bool:
    cls = class_of(hint)
    if is_jaxtyping(hint):
        return any(part is Any or _takes_arrays(part) for part in alternatives(hint.array_type))
    return isinstance(cls, type) and (cls is ArrayOrTensor or issubclass(cls, (np.ndarray, np.generic)))


def _options(hint: Any, nested: Nested) -> Iterator[Option]:
    cls = class_of(hint)
    batch = nested(hint)
    if batch is not None:
        yield batch
    elif hint is None or hint is type(None):
        yield Option(NONE)
    elif cls is Literal:
        yield from _literal(get_args(hint))
    elif is_jaxtyping(hint):
        yield from _jaxtyping(hint)
    elif type(cls).__module__.partition(".")[0] == "jaxtyping":
        raise DeclarationError(f"{cls.__name__} needs an array type and a shape, as in {cls.__name__}[np.ndarray, 'N']")
    elif type(cls).__name__ == "tensortype":  # torch.FloatTensor, a legacy name for a tensor of one dtype
        name = str(cls.dtype).removeprefix("torch.")
        yield Option(TENSOR, None, Dtypes(name, (name,)))
    elif not isinstance(cls, type):
        if not isinstance(hint, TypeVar) and type(hint).__module__ not in ("typing", "typing_extensions"):
            raise DeclarationError(f"{_short(hint)} is not a type")
        yield Option(OBJECT)
    elif issubclass(cls, np.ndarray):
        # numpy's own annotations: NDArray[np.float32], ndarray[tuple[int, int], dtype[float32]]
        shape, dtype = (*get_args(hint), Any, Any)[:2]
        dtypes, is_generic = _numpy_dtypes(dtype), np.generic in alternatives(next(iter(get_args(dtype)), None))
        is_open = dtypes is None and not is_generic  # np.generic stands for each dtype, and Any for none in particular.
        yield Option(ARRAY, _class_to_check(cls), dtypes, _numpy_shape(shape), no_objects=is_open)
    elif issubclass(cls, (Number, np.generic)) and not issubclass(cls, (str, bytes)):
        yield from _number(cls)
    elif issubclass(cls, Ragged):
        inner = nested(bare(get_args(hint)[0])[0]) if get_args(hint) else None
        yield Option(RAGGED, schema=None if inner is None else inner.schema)
    elif KINDS[cls] is TENSORDICT:
        raise DeclarationError(
            f"a batch does not store a {cls.__name__}, so no value could match; declare a record with its fields, and "
            "convert values with typedbatch.bridges.tensordict.from_tensordict()"
        )
    elif issubclass(cls, Mapping):
        args = get_args(hint)
        each = options(args[1], nested) if len(args) == 2 else ()
        yield Option(BATCH, each=Field("*", each) if each else None)
    elif _is_sequence(hint) or cls is ArrayOrTensor:
        yield from (Option(ARRAY), Option(TENSOR))
    elif cls.__module__ == "collections.abc" and issubclass(np.ndarray, cls):  # Iterable, Collection, Sized
        yield from (Option(ARRAY), Option(TENSOR), Option(OBJECT, cls))
    else:
        yield Option(_kind_of_class(cls), _class_to_check(cls))


def class_of(hint: Any) -> Any:
    """Return the class of a hint: ``dict`` for ``dict[str, int]``."""
    origin = get_origin(hint)
    return hint if origin is None else origin


def is_jaxtyping(hint: Any) -> bool:
    """Return True for a jaxtyping annotation, ``Float[Tensor, "N"]``.

    jaxtyping is recognized by name and never imported, since it may not be installed.
    """
    is_own = isinstance(hint, type) and type(hint).__module__.partition(".")[0] == "jaxtyping"
    return is_own and hasattr(hint, "dim_str")


def _jaxtyping(hint: Any) -> Iterator[Option]:
    shape, dtypes = shape_of_text(hint.dim_str), jaxtyping_dtypes(hint)
    for cls in alternatives(hint.array_type):
        if cls is Any:
            yield Option(ARRAY, None, dtypes, shape)
            yield Option(TENSOR, None, dtypes, shape)
            continue
        kind = _kind_of_class(cls)
        if kind not in (ARRAY, TENSOR):
            raise DeclarationError(f"{show(cls)} is neither a numpy array nor a torch tensor, so it has no shape here")
        yield Option(kind, _class_to_check(cls), dtypes, shape)


def _numpy_shape(hint: Any) -> Shape:
    hint, _ = bare(hint)
    sizes = get_args(hint)
    if hint is Any or hint is tuple or (len(sizes) == 2 and sizes[1] is Ellipsis):
        return WITH_ROWS
    if get_origin(hint) is not tuple:
        text = f"{_short(hint)} is not a shape; numpy's are tuples, as in ndarray[tuple[int, int], Any]"
        raise DeclarationError(text)
    dims = []
    for position, size in enumerate(sizes):
        choices = get_args(size) if get_origin(size) is Literal else ()
        if hasattr(size, "__supertype__"):  # a name for a size: Rows = NewType("Rows", int)
            dims.append(Dim(Sort.NAMED, size.__name__))
        elif len(choices) == 1 and type(choices[0]) is int and choices[0] >= 0:
            dims.append(Dim(Sort.FIXED, str(choices[0])))
        elif size is int and position == 0:
            dims.append(Dim(Sort.NAMED, ROWS, implied=True))
        elif size is int or size is Any:
            dims.append(Dim(Sort.ANY, "_"))
        else:
            reason = f"{_short(size)} is not a size; sizes are int, Literal[4], or a NewType of int for a name"
            raise DeclarationError(reason)
    return Shape(tuple(dims))


def _numpy_dtypes(hint: Any) -> Dtypes | None:
    hint, _ = bare(hint)
    if hint is Any:
        return None
    cls = class_of(hint)
    if not isinstance(cls, type) or not issubclass(cls, np.dtype):
        text = f"{_short(hint)} is not a dtype; write np.dtype[{_short(hint)}], or NDArray[{_short(hint)}]"
        raise DeclarationError(text)
    (scalar,) = get_args(hint) or (getattr(cls, "type", None) or Any,)
    scalars = alternatives(bare(scalar)[0])
    for scalar in scalars:
        if scalar is not Any and not (isinstance(scalar, type) and issubclass(scalar, np.generic)):
            raise DeclarationError(f"{_short(scalar)} is not a numpy scalar type such as np.float32 or np.integer")
    return None if Any in scalars else scalar_dtypes(*scalars)


def _number(cls: type) -> Iterator[Option]:
    if issubclass(cls, np.generic):
        yield Option(ARRAY, None, scalar_dtypes(cls), NO_DIMS)
        return
    abstract: dict[type, type] = {Integral: int, Real: float}
    dtypes = BUILTINS.get(abstract.get(cls, cls))
    yield Option(ARRAY, None, dtypes, NO_DIMS)
    yield Option(TENSOR, None, dtypes, NO_DIMS)


def _literal(choices: tuple[Any, ...]) -> Iterator[Option]:
    numbers = tuple(choice for choice in choices if isinstance(choice, int))
    others = tuple(choice for choice in choices if not isinstance(choice, int) and choice is not None)
    if numbers:
        yield Option(ARRAY, None, None, NO_DIMS, choices=numbers)
        yield Option(TENSOR, None, None, NO_DIMS, choices=numbers)
    if others:
        yield Option(OBJECT, choices=others)
    if None in choices:
        yield Option(NONE)


def _kind_of_class(cls: type) -> Kind:
    if cls is Distribution:
        return DISTRIBUTION
    if issubclass(cls, np.ndarray):
        return ARRAY
    torch: Any = sys.modules.get("torch")
    if torch is not None and issubclass(cls, torch.Tensor):
        return TENSOR
    if torch is not None and issubclass(cls, torch.distributions.Distribution):
        return DISTRIBUTION
    return OBJECT


def _class_to_check(cls: type) -> type | None:
    """Return the class that values must be instances of; None if the kind implies it or ``isinstance`` rejects it.

    ``isinstance`` rejects protocols that are not ``runtime_checkable``.
    """
    if cls in (np.ndarray, Distribution, getattr(sys.modules.get("torch"), "Tensor", None)):
        return None
    try:
        isinstance(None, cls)
    except Exception:  # noqa: BLE001  # a protocol raises TypeError, a class with its own __instancecheck__ anything
        return None
    return cls


def _short(hint: Any) -> str:
    return show(hint) if isinstance(hint, (type, types.GenericAlias)) else cut(repr(hint), 60)
