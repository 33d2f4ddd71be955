"""Questions that conditions ask, by their syntax: for classes, for fields, for the shapes of arrays."""

from __future__ import annotations

import ast
from typing import Final, NamedTuple

_OF_ARRAYS: Final = frozenset({"ndim", "dim", "dtype", "is_floating_point", "is_complex", "issubdtype", "isscalar"})
"""Members and functions by which a program asks for the number of axes, or the dtype, of an array."""
_OF_FIELDS: Final = ("hasattr", "getattr")


class Question(NamedTuple):
    """Question that a condition asks.

    Attributes:
        names: Variables in it.
        is_of_class: Whether it asks for the class of a value.
        is_of_fields: Whether it asks which fields there are.
        arrays: Arrays of which it asks the number of axes or the dtype.
    """

    names: set[str]
    is_of_class: bool
    is_of_fields: bool
    arrays: list[ast.expr]


def question_in(test: ast.expr) -> Question:
    """Return what a condition asks."""
    names, arrays = set[str](), list[ast.expr]()
    is_of_class = is_of_fields = False
    for node in ast.walk(test):
        match node:
            case ast.Name(id=name):
                names.add(name)
                is_of_class |= name in ("isinstance", "type")
                is_of_fields |= name in _OF_FIELDS
            case ast.Attribute(value=owner, attr=name):
                is_of_fields |= name == "keys"
                if name in _OF_ARRAYS:
                    arrays.append(owner)
            case ast.In() | ast.NotIn():
                is_of_fields = True
            case ast.Call(func=ast.Name(id="len"), args=args):
                arrays += [one.value for one in args if isinstance(one, ast.Attribute) and one.attr == "shape"]
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _OF_ARRAYS:
                arrays += args
            case _:
                pass
    return Question(names, is_of_class, is_of_fields, arrays)
