"""What a protocol or record says of the meta of its batches: the keys of a ``TypedDict``, and what each takes."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import numpy as np
import typing_extensions

from typedbatch._tree.leaves import describe
from typedbatch.errors import Code, DeclarationError
from typedbatch.schema.hints import alternatives, bare, resolve, scope_of, show
from typedbatch.schema.names import child

Misfit = tuple[str, Code, str, str]
"""Path, code, what is expected and what is there."""

_REQUIRED = (typing.Required, typing_extensions.Required)
_NOT_REQUIRED = (typing.NotRequired, typing_extensions.NotRequired)
_QUALIFIERS: tuple[Any, ...] = (*_REQUIRED, *_NOT_REQUIRED, typing_extensions.ReadOnly)
_NUMBERS: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the meta.

    Attributes:
        hint: the type that its value has, as it is annotated.
        required: it must be there.
    """

    hint: Any
    required: bool


@dataclass(frozen=True, slots=True)
class MetaSchema:
    """The declared meta of a batch, or a dict in it.

    Attributes:
        name: of the ``TypedDict``.
        keys: those that it declares; others may be there too.
    """

    name: str
    keys: Mapping[str, Key]

    def fits(self, meta: Mapping[str, Any]) -> bool:
        """True when there is no misfit."""
        return next(self.misfits(meta, "meta"), None) is None

    def misfits(self, meta: Mapping[str, Any], path: str) -> Iterator[Misfit]:
        """Each key that is missing, or whose value is of another type."""
        for name, key in self.keys.items():
            where = child(path, name)
            if name in meta:
                yield from _misfits(meta[name], key.hint, where)
            elif key.required:
                yield where, "TB101 missing-field", _words(key.hint), "missing"

    def takes(self, name: str, value: Any) -> bool:
        """True when a value is of the type of a key."""
        return _is(value, self.keys[name].hint)

    def choices(self, name: str) -> tuple[Any, ...]:
        """The values of the ``Literal`` that a key is declared as; none for another type."""
        hint, _ = bare(self.keys[name].hint)
        return get_args(hint) if get_origin(hint) is Literal else ()

    def nested(self, name: str) -> MetaSchema | None:
        """The ``TypedDict`` that a key is declared as; None for another type."""
        hint, _ = bare(self.keys[name].hint)
        return _of_typed_dict(hint) if typing_extensions.is_typeddict(get_origin(hint) or hint) else None

    def required(self) -> bool:
        """True when a batch without meta does not fit."""
        return any(key.required for key in self.keys.values())


def read_meta(hint: Any) -> MetaSchema:
    """What the annotation of ``meta`` asks for; no key, for a ``Mapping`` or ``dict``.

    Raises:
        DeclarationError: it is something else, or a name in it cannot be found.
    """
    hint, _ = bare(hint)
    if typing_extensions.is_typeddict(get_origin(hint) or hint):
        return _of_typed_dict(hint)
    origin = get_origin(hint) or hint
    if hint is Any or (isinstance(origin, type) and issubclass(dict, origin) and origin is not object):
        return MetaSchema(show(hint), {})
    raise DeclarationError(f"meta is declared as a TypedDict, or as Mapping[str, Any], not as {show(hint)}")


def _of_typed_dict(hint: Any) -> MetaSchema:
    cls = get_origin(hint) or hint
    types_ = dict(zip(getattr(cls, "__parameters__", ()), get_args(hint), strict=False))
    keys = {}
    for name, annotation in cls.__annotations__.items():
        required = name in cls.__required_keys__
        kind = resolve(annotation, types_, scope_of(cls))
        while get_origin(kind) in _QUALIFIERS:
            if get_origin(kind) not in _QUALIFIERS[-1:]:
                required = get_origin(kind) in _REQUIRED
            kind = resolve(get_args(kind)[0], types_, scope_of(cls))
        keys[name] = Key(kind, required)
    return MetaSchema(cls.__name__, keys)


def _misfits(value: Any, hint: Any, path: str) -> Iterator[Misfit]:
    hint, _ = bare(hint)
    if typing_extensions.is_typeddict(get_origin(hint) or hint) and isinstance(value, dict):
        yield from _of_typed_dict(hint).misfits(value, path)
    elif not _is(value, hint):
        code: Code = "TB203 wrong-choice" if get_origin(hint) is Literal else "TB202 wrong-kind"
        yield path, code, _words(hint), describe(value)


def _is(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; True for types of which that cannot be told."""
    hint, _ = bare(hint)
    options = alternatives(hint)
    if len(options) > 1:
        return any(_is(value, option) for option in options)
    if hint is None or hint is type(None):
        return value is None
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if typing_extensions.is_typeddict(origin):
        return isinstance(value, dict) and next(_of_typed_dict(hint).misfits(value, ""), None) is None
    if hint is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    return isinstance(value, _NUMBERS.get(origin, (origin,))) and _has_parts(value, origin, args)


def _has_parts(value: Any, origin: type, args: tuple[Any, ...]) -> bool:
    if not args:
        return True
    if origin is np.ndarray:
        return _is_of_dtype(value, args[-1])
    if origin is tuple and args[-1] is not Ellipsis:
        return len(value) == len(args) and all(map(_is, value, args))
    if issubclass(origin, Mapping) and len(args) == 2:
        return all(_is(name, args[0]) and _is(inner, args[1]) for name, inner in value.items())
    if issubclass(origin, (Sequence, AbstractSet)) or origin is Collection:
        return all(_is(inner, args[0]) for inner in value)
    return True


def _is_of_dtype(value: Any, dtype: Any) -> bool:
    scalar = next(iter(get_args(dtype)), Any)
    cls: Any = get_origin(scalar) or scalar
    return not isinstance(cls, type) or issubclass(value.dtype.type, cls)


def _words(hint: Any) -> str:
    hint, _ = bare(hint)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    options = alternatives(hint)
    return " or ".join("None" if option is type(None) else show(option) for option in options)
