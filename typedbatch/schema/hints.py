"""Annotations as run time sees them: strings, aliases and type variables replaced by what they stand for."""

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

Types = Mapping[Any, Any]
"""What each type variable stands for."""

Scope = Mapping[str, Any]
"""The names that string annotations and forward references are looked up in."""

# from Python 3.12 on typing has a TypeAliasType, and typing_extensions may still have another
ALIASES: Any = tuple(
    {typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType)}
)


_SELF = (typing.Self, typing_extensions.Self)


def scope_of(cls: type) -> Scope:
    """The names that an annotation in the body of ``cls`` may use."""
    module = vars(sys.modules.get(cls.__module__, types.ModuleType("")))
    parameters = {parameter.__name__: parameter for parameter in getattr(cls, "__type_params__", ())}
    return {**module, **vars(cls), **parameters, cls.__name__: cls}


def resolve(hint: Any, types_: Types, scope: Scope) -> Any:
    """``hint`` without strings, forward references, aliases, ``Final`` and type variables.

    A variable becomes what ``types_`` says, else its default, its constraints, its bound, or ``Any``. ``Annotated``
    and ``NewType`` stay, as they say something about arrays; :func:`bare` takes them off.

    Raises:
        DeclarationError: a name in it cannot be found.
    """
    if isinstance(hint, (str, ForwardRef)):
        return resolve(_evaluate(hint if isinstance(hint, str) else hint.__forward_arg__, scope), types_, scope)
    if isinstance(hint, TypeVar) or any(hint is one for one in _SELF):
        return _variable(hint, types_, scope)
    if isinstance(hint, ALIASES):
        return resolve(hint.__value__, types_, scope)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(resolve(args[0], types_, scope), *args[1:])]
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
    # in Callable[[int], str] an argument may be no type at all
    new = tuple(a if isinstance(a, list) or a is Ellipsis else resolve(a, types_, scope) for a in args)
    if new == args:
        return hint
    return hint.copy_with(new) if hasattr(hint, "copy_with") else origin[new]  # type: ignore[index]


def _variable(variable: Any, types_: Types, scope: Scope) -> Any:
    if variable in types_ or variable in _SELF:
        return types_.get(variable, Any)
    default = getattr(variable, "__default__", NoDefault)
    if default is not NoDefault:
        return resolve(default, types_, scope)
    if variable.__constraints__:
        return reduce(lambda one, two: Union[one, two], variable.__constraints__)  # noqa: UP007
    return Any if variable.__bound__ is None else resolve(variable.__bound__, types_, scope)


def _evaluate(text: str, scope: Scope) -> Any:
    try:
        return eval(text, dict(scope))  # the program's own source, as typing.get_type_hints does
    except Exception as error:
        names = "; names in it must be importable from the module, not from a function or under TYPE_CHECKING"
        is_name = isinstance(error, (NameError, AttributeError))
        raise DeclarationError(f"cannot read the annotation {text!r}: {error}{names if is_name else ''}") from error


def bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A resolved hint without ``Annotated`` and ``NewType``, and all that ``Annotated`` said."""
    said: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, more = get_args(hint)[0], get_args(hint)[1:]
            said = (*more, *said)
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint, said


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The parts of a union; of anything else, itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def show(hint: Any) -> str:
    """A type as a person writes it, with the arguments that were given."""
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
    # numpy's own arguments, as in NDArray[Any], are long and say little
    given = [] if name == "ndarray" else [arg for arg in args if not isinstance(arg, TypeVar)]
    return f"{name}[{', '.join(map(show, given))}]" if given else name
