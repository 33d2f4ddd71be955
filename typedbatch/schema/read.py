"""Reading of declarations: from a protocol or record class to its ``Schema``."""

from __future__ import annotations

import threading
import typing
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, get_args

import numpy as np
import typing_extensions
from typing_extensions import Format, get_annotations

from typedbatch._core.declaration import places, show_place
from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR, describe
from typedbatch._markers import role_in, steps_in
from typedbatch._names import nearest
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, bases_first, is_class_var
from typedbatch.rules import batch_rules
from typedbatch.schema import SCHEMAS, schema_of
from typedbatch.schema.annotations import ALIASES, Types, alternatives, bare, resolve, scope_of, show
from typedbatch.schema.declared_meta import read_meta
from typedbatch.schema.dims import Sort
from typedbatch.schema.dtypes import BUILTINS
from typedbatch.schema.fields import Field, Option, Schema
from typedbatch.schema.first_dims import guard_rows, guard_when_used
from typedbatch.schema.values import class_of, is_jaxtyping, options

_NOT_SCHEMAS = {*BatchRecord.__mro__, BatchProtocol, Protocol, Generic}
_OPTIONS: dict[Any, tuple[Any, ...]] = {}
_UNFINISHED: dict[Any, Schema] = {}
"""The schemas that are being read. They may nest one another, so other threads see none until all are complete."""
_READING = threading.RLock()
_MISSPELT = 0.85
"""Similarity of two names, from 0 to 1, from which one is taken for the other: ``los_mask`` and ``loss_mask``."""


def is_schema(hint: Any) -> bool:
    """Return True for a protocol or record, parametrized or not, and for ``Batch`` itself."""
    cls = class_of(hint)
    return isinstance(cls, type) and (BatchProtocol in cls.__mro__ or issubclass(cls, Batch))


def is_bare_protocol(hint: Any) -> bool:
    """Return True for a protocol with fields, beside members of ``Batch``, that lacks ``BatchProtocol`` as a base."""
    cls = class_of(hint)
    is_protocol = isinstance(cls, type) and getattr(cls, "_is_protocol", False) and not is_schema(cls)
    names = (name for base in cls.__mro__ for name, _, _ in _own_members(base)) if is_protocol else ()
    return not all(hasattr(Batch, name) for name in names)


def options_of(schema: Any) -> tuple[Any, ...]:
    """Return the members of a union of schemas, or the schema itself. Aliases are resolved."""
    try:
        return _OPTIONS[schema]
    except (KeyError, TypeError):  # a new hint, or one that is not hashable
        pass
    hint, _ = bare(schema if isinstance(schema, str) else resolve(schema, {}, {}))
    options = tuple(bare(option)[0] for option in alternatives(hint))
    for option in options:
        if not is_schema(option) and option is not type(None):
            # The error text must not contain the values of an array.
            what = describe(option) if KINDS[type(option)] in (ARRAY, TENSOR, BATCH) else show(option)
            reason = f"{what} is not a schema; a schema is a class that inherits from BatchProtocol or BatchRecord"
            reason += f": class {what}(BatchProtocol, Protocol)" if is_bare_protocol(option) else ""
            is_batch = KINDS[type(option)] is BATCH
            raise DeclarationError(f"{reason}, and it comes after the batch" if is_batch else reason)
    with suppress(TypeError):  # Annotated[Rollout, ["a note"]] is not hashable
        _OPTIONS[schema] = options
    return options


def read_schema(hint: Any) -> Schema:
    """Read the schema of a protocol or record, and keep it for :func:`typedbatch.schema.schema_of`."""
    options = options_of(hint)
    if len(options) != 1:
        raise DeclarationError(f"expected a single protocol or record, got the union {show(hint)}; name one of them")
    (hint,) = options
    try:
        hash(hint)
    except TypeError as error:
        raise DeclarationError(f"an argument of {show(hint)} cannot be a key of a dict: {error}") from None
    with _READING:
        if hint in SCHEMAS:
            return SCHEMAS[hint]
        try:
            schema = _started(hint)
            for finished in _UNFINISHED.values():
                _require_computed(finished)
                if issubclass(finished.target, BatchRecord):
                    guard_rows(finished.target, finished)
            SCHEMAS.update(_UNFINISHED)  # only now, so that no other thread and no later call sees an incomplete one
        except RecursionError:
            text = f"an annotation of {show(hint)} is defined by itself; only a protocol or record may contain itself"
            raise DeclarationError(text) from None
        finally:
            _UNFINISHED.clear()
    return schema


def _started(hint: Any) -> Schema:
    """Return the schema of a declaration; that of one that nests itself gets its fields only when reading ends."""
    known = SCHEMAS.get(hint, _UNFINISHED.get(hint))
    if known is None:
        cls = class_of(hint)
        known = _UNFINISHED[hint] = Schema(show(hint), cls, _place(cls))
        # The only time that a Schema changes: it must exist before its fields are read, which may refer to it.
        known.set_fields(tuple(_fields(hint)))
        object.__setattr__(known, "rules", tuple(batch_rules(cls)))
        _require_no_misspelling(known)
        own = ((base, hint) for base in cls.__mro__ for name, hint, _ in _own_members(base) if name == "meta")
        for base, annotation in islice(own, 1):
            with _located(f"{base.__module__}.{base.__qualname__}.meta"):
                object.__setattr__(known, "meta", read_meta(resolve(annotation, {}, scope_of(base))))
    return known


def _require_no_misspelling(schema: Schema) -> None:
    """Check that rules name no field that is likely a misspelt one: a rule holds where a field is absent."""
    declared = [field.name for field in schema.fields]
    for one in schema.rules:
        named = {*getattr(one.holds, "__typedbatch_fields__", ())}
        for name in named.difference(declared, dir(schema.target)):
            near = nearest(name, declared)
            if not near or near in named:
                continue
            from difflib import SequenceMatcher  # imported here because few rules name an undeclared field

            if SequenceMatcher(None, name, near).ratio() >= _MISSPELT:
                text = f"the rule {schema.name}.{one.name} is about {name!r}, which is not declared"
                raise DeclarationError(f"{text}; did you mean {near!r}?")


def _place(cls: type, member: object = None) -> str:
    if isinstance(member, property):
        code = getattr(member.fget, "__code__", None)
        if code is not None:
            return show_place(code.co_filename, code.co_firstlineno + 1)  # the def is on the line below @property
    return show_place(*places[cls]) if cls in places else ""


def _fields(hint: Any) -> Iterator[Field]:
    cls = class_of(hint)
    bindings: dict[type, Types] = {}
    _bind(hint, {}, bindings)
    parameters = _parameters_in(cls)
    own = {base: [member for member in _own_members(base) if member[0] != "meta"] for base in cls.__mro__}
    members: dict[str, tuple[type, Any, bool]] = {}
    for base in reversed(cls.__mro__):  # the first class in the MRO overrides the others
        members.update((name, (base, hint, optional)) for name, hint, optional in own[base])
    for name in dict.fromkeys(name for base in bases_first(cls) for name, _, _ in own[base]):
        base, annotation, optional = members[name]
        where = f"{base.__module__}.{base.__qualname__}"
        with _located(f"{where}.{name}"):
            if name[:2] == "__":
                raise DeclarationError(
                    f"a field cannot be called {name!r}, as names with two underscores in front are Python's own; "
                    "choose another name, or annotate it as ClassVar[...] if it is not a field"
                )
            scope = scope_of(base)
            known = {**bindings.get(base, {}), typing.Self: hint, typing_extensions.Self: hint}
            resolved = resolve(annotation, known, scope)
            place = _place(base, base.__dict__.get(name))
            variables = {variable: variable for variable in getattr(base, "__parameters__", ())}
            variable = bare(resolve(annotation, variables, scope))[0] if variables else None
            parameter = parameters.get((base, variable)) if isinstance(variable, TypeVar) else None
            metadata = bare(resolved)[1]
            steps, flags = steps_in(metadata)
            found = options(resolved, _nested)
            found = tuple(map(_of_flags, found)) if flags else found
            yield Field(name, found, optional, where, place, parameter, steps, role_in(metadata))


def _of_flags(option: Option) -> Option:
    """Return an option with the dtype bool, unless the annotation declares dtypes itself."""
    is_open = option.kind in (ARRAY, TENSOR) and option.dtypes is None
    return replace(option, dtypes=BUILTINS[bool]) if is_open else option


@contextmanager
def _located(field: str) -> Generator[None]:
    """Add the dotted name of a field to errors that are raised inside the block."""
    try:
        yield
    except DeclarationError as error:
        raise DeclarationError(f"{error.reason} ({field})") from error.__cause__


def _parameters_in(cls: Any) -> dict[tuple[type, Any], int]:
    """Return the index of the class's type parameter that each type variable of a base is bound to, by both."""
    own = getattr(cls, "__parameters__", ())
    if not own:
        return {}
    bindings: dict[type, Types] = {}
    _bind(cls[own], {variable: variable for variable in own}, bindings)
    positions = {variable: position for position, variable in enumerate(own)}
    return {
        (base, variable): positions[value]
        for base, bound in bindings.items()
        for variable, value in bound.items()
        if isinstance(value, TypeVar) and value in positions
    }


def _nested(hint: Any) -> Option | None:
    if not is_schema(hint):
        return None
    return Option(BATCH) if class_of(hint) in _NOT_SCHEMAS else Option(BATCH, schema=_started(hint))


def _bind(hint: Any, outer: Types, bindings: dict[type, Types]) -> None:
    """Add the types to which the type variables of a class and of all its bases are bound to ``bindings``."""
    cls = class_of(hint)
    if cls in bindings or not isinstance(cls, type):
        return
    args, bound = get_args(hint), dict[Any, Any]()
    for position, parameter in enumerate(getattr(cls, "__parameters__", ())):
        if position < len(args):
            bound[parameter] = resolve(args[position], outer, scope_of(cls))
        else:
            bound[parameter] = resolve(parameter, bound, scope_of(cls))
    bindings[cls] = bound
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        if get_args(base) and class_of(base) not in _NOT_SCHEMAS:
            # Replace forward references, as in ``class A(RolloutBatch[Array, "Later"])``, and no type variables.
            keep = {parameter: parameter for parameter in getattr(base, "__parameters__", ())}
            base = resolve(base, keep, scope_of(cls))
        _bind(base, bound, bindings)


def _own_members(cls: type) -> Iterator[tuple[str, Any, bool]]:
    if cls in _NOT_SCHEMAS:
        return
    is_protocol = getattr(cls, "_is_protocol", False) or BatchProtocol in cls.__mro__
    for name, hint in get_annotations(cls, format=Format.FORWARDREF).items():
        if not is_class_var(hint) and (is_protocol or name[:2] != "__"):
            yield name, hint, name in cls.__dict__
    for name, member in cls.__dict__.items():
        if isinstance(member, property) and member.fget is not None and is_protocol:
            yield name, getattr(member.fget, "__annotations__", {}).get("return", Any), False


def _require_computed(schema: Schema) -> None:
    """Refuse a size that is computed from a name that no field has, or that only a later field has.

    The second matters only for values that are checked before the later field is.
    """
    names, before = _named_dims(schema.every_option(shared=True)), set[str]()
    for field in schema.fields:
        for option in field.every_option():
            # A size in a union or in a dict[str, ...] is checked at once, and can use only names of the fields before.
            is_inside_dict = all(option is not own for own in field.options)
            is_early = is_inside_dict or [own.kind for own in field.options].count(option.kind) > 1
            known = before | _named_dims([option]) if is_early else names
            for dim in option.shape.dims:
                unknown = [name for name in dim.names if name not in known] if dim.sort is Sort.COMPUTED else []
                if unknown:
                    where = "a field before it" if unknown[0] in names else "any field"
                    raise DeclarationError(
                        f"the size {dim.text!r} is computed from {unknown[0]!r}, which is not a dimension of {where} "
                        f"({field.declared_in}.{field.name})"
                    )
        for option in field.every_option():
            before |= _named_dims([option])
            if option.schema is not None and not option.own_sizes:
                before |= _named_dims(option.schema.every_option(shared=True))


def _named_dims(options: Iterable[Option]) -> set[str]:
    return {dim.text for option in options for dim in option.shape.dims if dim.sort is Sort.NAMED}


def read_at_declaration(cls: type) -> None:
    """Refuse a declaration that can never be read. One that refers to later definitions is read at its first use."""
    declared = get_annotations(cls, format=Format.FORWARDREF)
    for name, value in vars(cls).items():
        is_inner = isinstance(value, type) and value.__qualname__.startswith(f"{cls.__qualname__}.")
        if name[:2] == "__" or name in declared or is_inner:
            continue
        origin = class_of(value)
        if origin is not value and isinstance(origin, ALIASES):  # NDArray[Any], since numpy 2.5
            origin = class_of(origin.__value__)
        if is_jaxtyping(value) or is_schema(value) or origin is np.ndarray:
            text = f"{cls.__name__}.{name} has a type as its value; to declare a field write {name}: {show(value)}"
            raise DeclarationError(text)
    if _UNFINISHED:  # reading an annotation has created this class
        return
    try:
        schema_of(cls)
    except DeclarationError as error:
        if not isinstance(error.__cause__, (NameError, AttributeError)):
            raise
        if issubclass(cls, BatchRecord):
            guard_when_used(cls)
