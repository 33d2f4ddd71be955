"""Declared meta of a protocol or record: the keys of a ``TypedDict``, and the type of each value."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import numpy as np
import typing_extensions

from typedbatch._core.kinds import describe
from typedbatch.errors import Code, DeclarationError
from typedbatch.schema.annotations import alternatives, bare, resolve, scope_of, show
from typedbatch.schema.paths import child

Mismatch = tuple[str, Code, str, str]
"""The path of a wrong key, the code of the problem, what was expected and what came."""

_REQUIRED = (typing.Required, typing_extensions.Required)
_NOT_REQUIRED = (typing.NotRequired, typing_extensions.NotRequired)
_QUALIFIERS: tuple[Any, ...] = (*_REQUIRED, *_NOT_REQUIRED, typing_extensions.ReadOnly)
_NUMBERS: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}


@dataclass(frozen=True, slots=True)
class Key:
    """A declared key of the meta: the annotated type of its value, and whether it must be there."""

    hint: Any
    required: bool


@dataclass(frozen=True, slots=True)
class MetaSchema:
    """The declared meta of a batch, or of a dict in it: its declared keys, beside which it may have others."""

    name: str
    keys: Mapping[str, Key]

    def fits(self, meta: Mapping[str, Any]) -> bool:
        """Return True if all required keys are there, and each declared key has a value of its type."""
        return next(self.mismatches(meta, "meta"), None) is None

    def mismatches(self, meta: Mapping[str, Any], path: str) -> Iterator[Mismatch]:
        """Yield each key that is missing, or whose value is of another type."""
        for name, key in self.keys.items():
            where, (hint, _) = child(path, name), bare(key.hint)
            is_choice = get_origin(hint) is Literal
            code: Code = "TB203 wrong-choice" if is_choice else "TB202 wrong-kind"
            got = ""
            if name not in meta:
                code, got = "TB101 missing-field", "missing" if key.required else ""
            elif typing_extensions.is_typeddict(get_origin(hint) or hint) and isinstance(meta[name], dict):
                yield from read_typed_dict(hint).mismatches(meta[name], where)
            elif not is_of_type(meta[name], hint):
                got = describe(meta[name])
            if got:
                parts = ["None" if part is type(None) else show(part) for part in alternatives(hint)]
                words = f"one of {', '.join(map(repr, get_args(hint)))}" if is_choice else " or ".join(parts)
                yield where, code, words, got

    def required(self) -> bool:
        """Return True if any key must be there, so that a batch without meta does not match."""
        return any(key.required for key in self.keys.values())


def read_meta(hint: Any) -> MetaSchema:
    """Read the annotation of ``meta``. A ``Mapping`` or ``dict`` declares no keys."""
    hint, _ = bare(hint)
    if typing_extensions.is_typeddict(get_origin(hint) or hint):
        return read_typed_dict(hint)
    origin = get_origin(hint) or hint
    if hint is Any or (isinstance(origin, type) and issubclass(dict, origin) and origin is not object):
        return MetaSchema(show(hint), {})
    raise DeclarationError(f"meta must be declared as a TypedDict or as Mapping[str, Any], not as {show(hint)}")


def read_typed_dict(hint: Any) -> MetaSchema:
    """Return the keys of a ``TypedDict``."""
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


def is_of_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; True for types that cannot be checked at run time, such as protocols."""
    hint, _ = bare(hint)
    options = alternatives(hint)
    if len(options) > 1:
        return any(is_of_type(value, option) for option in options)
    if hint is None or hint is type(None):
        return value is None
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if typing_extensions.is_typeddict(origin):
        return isinstance(value, dict) and next(read_typed_dict(hint).mismatches(value, ""), None) is None
    if hint is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    parts: Any = value  # without the class to which checkers narrow it
    if not isinstance(value, _NUMBERS.get(origin, (origin,))):
        return False
    if not args:
        return True
    if origin is np.ndarray:
        scalar = next(iter(get_args(args[-1])), Any)
        cls: Any = get_origin(scalar) or scalar
        return not isinstance(cls, type) or issubclass(parts.dtype.type, cls)
    if origin is tuple and args[-1] is not Ellipsis:
        return len(parts) == len(args) and all(map(is_of_type, parts, args))
    if issubclass(origin, Mapping) and len(args) == 2:
        return all(is_of_type(name, args[0]) and is_of_type(inner, args[1]) for name, inner in parts.items())
    if issubclass(origin, (Sequence, AbstractSet)) or origin is Collection:
        return all(is_of_type(inner, args[0]) for inner in parts)
    return True
