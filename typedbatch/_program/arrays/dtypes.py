"""Names of dtypes, those that jaxtyping's words stand for, and what arithmetic makes of them."""

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
"""What each of jaxtyping's words lets through; None for any. A word that is not here is for none that is followed."""

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
    """A dtype by its name in ``torch`` or ``numpy``; None if it is not one that is followed."""
    name = (_ALIASES if torch else _NUMPY_ALIASES).get(name, name)
    return frozenset({name}) if name in _PLAIN else None


def of_python(name: str, *, torch: bool) -> Dtypes | None:
    """What Python's own ``int``, ``float``, ``bool`` stand for where a dtype is expected."""
    if name == "bool":
        return BOOL
    if name == "float":
        return frozenset({"float64"})
    return (frozenset({"int64"}) if torch else SIGNED) if name == "int" else None


def is_in(dtypes: Dtypes | None, group: Dtypes) -> bool:
    """Are they certain to be of a group."""
    return dtypes is not None and bool(dtypes) and dtypes <= group


def told(dtypes: Dtypes | None) -> str:
    """As people say it: ``float32``, ``an integer``."""
    if dtypes is None:
        return "any dtype"
    if len(dtypes) == 1:
        return next(iter(dtypes))
    for group, word in ((INTS, "integers"), (FLOATS, "floats"), (COMPLEX, "complex numbers")):
        if dtypes <= group:
            return word
    return " or ".join(sorted(dtypes))


def of_arithmetic(one: Dtypes | None, other: Dtypes | None) -> Dtypes | None:
    """What sums and products of two arrays have; None where it takes more than this to tell."""
    if one is None or other is None:
        return None
    if one == other and len(one) == 1:
        return one
    return FLOATS if one <= FLOATS and other <= FLOATS else None


def of_mean(dtypes: Dtypes | None) -> Dtypes | None:
    """What means and quotients have: floats keep theirs."""
    if dtypes is None:
        return None
    return dtypes if dtypes <= FLOATS | COMPLEX else FLOATS if dtypes <= INTS | BOOL else None
