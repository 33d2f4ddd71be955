"""Names of dtypes, the dtypes that the words of jaxtyping stand for, and the dtypes of results of arithmetic."""

from __future__ import annotations

from typing import Final

Dtypes = frozenset[str]

BOOL: Final = frozenset({"bool"})
SIGNED: Final = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED: Final = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTS: Final = SIGNED | UNSIGNED
FLOATS: Final = frozenset({"float16", "float32", "float64", "bfloat16"})
COMPLEX: Final = frozenset({"complex64", "complex128"})
NUMBERS: Final = INTS | FLOATS | COMPLEX

JAXTYPING: Final[dict[str, Dtypes | None]] = {
    "Bool": BOOL,
    "Int": SIGNED,
    "UInt": UNSIGNED,
    "Integer": INTS,
    "Float": FLOATS,
    "Complex": COMPLEX,
    "Inexact": FLOATS | COMPLEX,
    "Real": INTS | FLOATS,
    "Num": NUMBERS,
    "Shaped": None,
    "Key": None,
    **{
        name: frozenset({name.lower()})
        for name in (
            "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64",
            "BFloat16", "Float16", "Float32", "Float64", "Complex64", "Complex128",
        )
    },
}  # fmt: skip
"""Dtypes that each word of jaxtyping admits, or None for any; other words admit none of the dtypes above."""

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_NUMPY_ALIASES = {"bool_": "bool", "double": "float64", "single": "float32", "half": "float16"}
_PLAIN = BOOL | NUMBERS


def dtype_named(name: str, *, torch: bool) -> Dtypes | None:
    """Return a dtype by its name in ``torch`` or ``numpy``, or None if it is not known."""
    name = (_ALIASES if torch else _NUMPY_ALIASES).get(name, name)
    return frozenset({name}) if name in _PLAIN else None


def of_python(name: str, *, torch: bool) -> Dtypes | None:
    """Return the dtype that ``int``, ``float`` or ``bool`` of Python stands for where a dtype is expected."""
    if name == "bool":
        return BOOL
    if name == "float":
        return frozenset({"float64"})
    return (frozenset({"int64"}) if torch else SIGNED) if name == "int" else None


def is_in(dtypes: Dtypes | None, group: Dtypes) -> bool:
    """Return whether dtypes are known and all in a group."""
    return dtypes is not None and bool(dtypes) and dtypes <= group


def told(dtypes: Dtypes | None) -> str:
    """Return dtypes as messages name them: ``float32``, ``integers``."""
    if dtypes is None:
        return "any dtype"
    if len(dtypes) == 1:
        return next(iter(dtypes))
    for group, word in ((INTS, "integers"), (FLOATS, "floats"), (COMPLEX, "complex numbers")):
        if dtypes <= group:
            return word
    return " or ".join(sorted(dtypes))


def of_arithmetic(one: Dtypes | None, other: Dtypes | None) -> Dtypes | None:
    """Return the dtypes of a sum or product of two arrays, or None if they are not known."""
    if one is None or other is None:
        return None
    if one == other and len(one) == 1:
        return one
    return FLOATS if one <= FLOATS and other <= FLOATS else None


def of_mean(dtypes: Dtypes | None) -> Dtypes | None:
    """Return the dtypes of a mean or quotient; those of floats stay the same."""
    if dtypes is None:
        return None
    return dtypes if dtypes <= FLOATS | COMPLEX else FLOATS if dtypes <= INTS | BOOL else None
