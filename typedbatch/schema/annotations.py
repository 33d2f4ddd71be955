"""Run-time annotations: resolving strings, aliases and type variables, and showing types in reports."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Mapping
from functools import reduce
from typing import Annotated, Any, Final, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NoDefault

from typedbatch._typing import with_defaults
from typedbatch.errors import DeclarationError
from typedbatch.rules import Rule
from typedbatch.schema.column import Column, ItemsAre, annotation_of, rule_of

Types = Mapping[Any, Any]
"""The type that each type variable is bound to."""

Scope = Mapping[str, Any]
"""The names that string annotations and forward references may use, with their values."""

# From Python 3.12 on, typing has TypeAliasType, and that of typing_extensions may be a different class.
ALIASES: Any = tuple(
    {typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType)}
)


_SELF = (typing.Self, typing_extensions.Self)


def scope_of(cls: type) -> Scope:
    """Return the names that an annotation in the body of ``cls`` may use."""
    module = vars(sys.modules.get(cls.__module__, types.ModuleType("")))
    parameters = {parameter.__name__: parameter for parameter in getattr(cls, "__type_params__", ())}
    return {**module, **vars(cls), **parameters, cls.__name__: cls}


def resolve(hint: Any, types_: Types, scope: Scope) -> Any:
    """Replace strings, forward references, aliases, ``Final`` and type variables in a hint.

    A type variable is replaced by its type in ``types_``, else by its default, its constraints, its bound, or ``Any``.
    ``Annotated`` and ``NewType`` remain, since they may describe arrays; :func:`bare` removes them.
    """
    if isinstance(hint, (str, ForwardRef)):
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        try:
            hint = eval(text, dict(scope))  # safe: it is the program's own source, as in typing.get_type_hints
        except Exception as error:
            names = "; names in it must be importable from the module, not from a function or under TYPE_CHECKING"
            is_name = isinstance(error, (NameError, AttributeError))
            raise DeclarationError(f"cannot read the annotation {text!r}: {error}{names if is_name else ''}") from error
        return resolve(hint, types_, scope)
    if hint is Column:
        return annotation_of(Any)
    if isinstance(hint, TypeVar) or any(hint is self_type for self_type in _SELF):
        return _variable(hint, types_, scope)
    if isinstance(hint, ALIASES):
        return resolve(hint.__value__, types_, scope)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(resolve(args[0], types_, scope), *(_resolved(item, types_, scope) for item in args[1:]))]
    if origin is Final:
        return resolve(args[0], types_, scope)
    if origin is Literal:
        return hint
    if isinstance(origin, ALIASES):
        inner = dict(zip(origin.__type_params__, args, strict=False))
        return resolve(resolve(origin.__value__, inner, scope), types_, scope)
    if origin in (Union, types.UnionType):
        return Union[tuple(resolve(arg, types_, scope) for arg in args)]  # noqa: UP007  # the parts are only known now
    if not args or not isinstance(origin, type):
        return hint
    # In Callable[[int], str] and tuple[int, ...] an argument is a list or an ellipsis.
    new = tuple(a if isinstance(a, list) or a is Ellipsis else resolve(a, types_, scope) for a in args)
    if new == args:
        return hint
    return hint.copy_with(new) if hasattr(hint, "copy_with") else origin[new]  # type: ignore[index]


def _resolved(item: Any, types_: Types, scope: Scope) -> Any:
    """Resolve the type of the items of a column in the metadata of ``Annotated``; return anything else as it is."""
    if isinstance(item, Rule) and isinstance(item.holds, ItemsAre):
        return rule_of(resolve(item.holds.item, types_, scope))
    return item


def _variable(variable: Any, types_: Types, scope: Scope) -> Any:
    if variable in types_ or variable in _SELF:
        return types_.get(variable, Any)
    default = getattr(variable, "__default__", NoDefault)
    if default is not NoDefault:
        return resolve(default, types_, scope)
    if variable.__constraints__:
        return reduce(lambda left, right: Union[left, right], variable.__constraints__)  # noqa: UP007
    return Any if variable.__bound__ is None else resolve(variable.__bound__, types_, scope)


def bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a resolved hint without ``Annotated`` and ``NewType``, and the metadata of ``Annotated``, inner first."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, more = get_args(hint)[0], get_args(hint)[1:]
            metadata = (*more, *metadata)
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint, metadata


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or a tuple of the hint itself if it is not a union."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def show(hint: Any) -> str:
    """Return a type as it is written in code, without arguments that equal the defaults of its parameters."""
    hint, _ = bare(hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(map(show, get_args(hint)))
    if origin is None:
        return hint.__name__ if isinstance(hint, type) else repr(hint)
    name = getattr(origin, "__name__", str(origin))
    full = args = get_args(hint)
    while len(args) > 1 and with_defaults(origin, args[:-1]) == full:
        args = args[:-1]
    # The arguments of numpy's arrays, as in NDArray[Any], are long and of little use to a reader.
    given = [] if name == "ndarray" else [arg for arg in args if not isinstance(arg, TypeVar)]
    return f"{name}[{', '.join(map(show, given))}]" if given else name
