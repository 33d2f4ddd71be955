"""Sets of dtypes that annotations name: a single dtype, or a family such as all integers, in numpy and torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from typedbatch._core.kinds import is_own_dtype

INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS: Final = ("float16", "float32", "float64", "longdouble")
_COMPLEX = ("complex64", "complex128", "clongdouble")
_WORDS = {  # by the names of jaxtyping and numpy
    ("Bool",): "bool",
    ("Int", "signedinteger"): "a signed integer type",
    ("UInt", "unsignedinteger"): "an unsigned integer type",
    ("Integer", "integer"): "an integer type",
    ("Float", "floating"): "a floating type",
    ("Complex", "complexfloating"): "a complex type",
    ("Inexact", "inexact"): "a floating or complex type",
    ("Real",): "a floating or integer type",
    ("Num", "number"): "a number type",
}
_FAMILIES = {name: words for names, words in _WORDS.items() for name in names}
_ABSTRACT = {np.generic, np.flexible, np.character, *np.number.__mro__, *np.floating.__mro__, *np.integer.__mro__} | {
    np.signedinteger,
    np.unsignedinteger,
    np.complexfloating,
}
JAXTYPING: Final = {
    "bool": "Bool",
    **{f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"Float{bits}" for bits in (16, 32, 64)},
    "bfloat16": "BFloat16",
    "float8_e4m3fn": "Float8e4m3fn",
    "float8_e5m2": "Float8e5m2",
    "complex64": "Complex64",
    "complex128": "Complex128",
}
"""Jaxtyping's names of the dtypes."""
_MOST = 1000  # there are infinitely many text and structured dtypes, so the cache is limited


class Dtypes(dict[Any, bool]):
    """A set of dtypes. ``dtypes[array.dtype]`` is True for a member; the result is cached per dtype of numpy or torch.

    Attributes:
        words: Description of the set: ``"float32"``, ``"an integer type"``.
        names: Names of dtypes, or patterns that match names.
        scalars: Numpy scalar types, possibly abstract, whose instances are elements of the array.
    """

    words: str
    names: tuple[str | re.Pattern[str], ...]
    scalars: tuple[type, ...]

    def __init__(self, words: str, names: Iterable[str | re.Pattern[str]] = (), scalars: tuple[type, ...] = ()) -> None:
        super().__init__()
        self.words, self.names, self.scalars = words, tuple(names), scalars

    def __missing__(self, dtype: Any) -> bool:
        spellings = names_of(dtype)
        answer = any(
            name == spelling if isinstance(name, str) else name.match(spelling) is not None
            for name in self.names
            for spelling in spellings
        )
        answer = answer or (isinstance(dtype, np.dtype) and self._has_scalar(dtype))
        if len(self) < _MOST and is_own_dtype(dtype):
            self[dtype] = answer
        return answer

    def usual(self) -> np.dtype[Any] | None:
        """Return the most common numpy dtype of the set, or None for a family of dtypes."""
        try:
            return np.dtype(self.words)
        except TypeError:
            return None

    def _has_scalar(self, dtype: np.dtype[Any]) -> bool:
        # The second condition is for longlong, which equals int64 but is not a subclass of it.
        native = dtype.newbyteorder("=")
        return any(
            issubclass(dtype.type, scalar) or (scalar not in _ABSTRACT and native == np.dtype(scalar))
            for scalar in self.scalars
        )

    def __repr__(self) -> str:
        return f"Dtypes({self.words!r})"


def names_of(dtype: Any) -> tuple[str, ...]:
    """Return the names of a numpy or torch dtype. numpy has two names for some dtypes."""
    if isinstance(dtype, np.dtype):
        if dtype.names is not None:
            return (str(dtype),)
        return dtype.type.__name__, dtype.name
    return (str(dtype).removeprefix("torch."),)


def jaxtyping_dtypes(annotation: Any) -> Dtypes | None:
    """Return the dtypes of a jaxtyping annotation, ``Float32[np.ndarray, "N"]``; None for ``Shaped`` (any dtype)."""
    if not isinstance(annotation.dtypes, (tuple, list)):
        return None
    family = annotation.dtype.__name__
    names = tuple(annotation.dtypes)
    single = names[0] if len(names) == 1 and isinstance(names[0], str) else family
    return Dtypes(_FAMILIES.get(family, single), names)


def scalar_dtypes(*scalars: type) -> Dtypes | None:
    """Return the dtypes whose elements are instances of one of these numpy scalar types; None for any dtype."""
    if np.generic in scalars:
        return None
    words = " or ".join(_FAMILIES.get(scalar.__name__, scalar.__name__.rstrip("_")) for scalar in scalars)
    is_text = any(issubclass(scalar, np.character) for scalar in scalars)  # a batch stores text as objects
    return Dtypes(words, ("object",) if is_text else (), scalars)


BUILTINS: dict[type, Dtypes] = {
    bool: Dtypes("bool", ("bool",)),
    int: Dtypes("an integer type", ("bool", *INTEGERS)),
    float: Dtypes("a real number type", ("bool", *INTEGERS, "bfloat16", *FLOATS)),
    complex: Dtypes("a number type", ("bool", *INTEGERS, "bfloat16", *FLOATS, *_COMPLEX)),
}
"""The dtypes that pass for Python's number types. As in Python, an ``int`` passes for a ``float``."""
