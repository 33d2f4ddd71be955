"""``validate``, ``conforms`` and ``extend``, which turn open batches into typed ones."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm, TypeIs

from typedbatch._declaration import is_own, show_place
from typedbatch._level import Level, current_level, level_named
from typedbatch._names import nearest
from typedbatch._ops.copying import shallow
from typedbatch._ops.display import summary
from typedbatch._tree.kinds import Tree, describe, new_tree
from typedbatch._tree.meta import as_meta, keep_meta, set_meta
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, FieldNameError, LeafError, Problem, SchemaError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, fill_defaults, new_view, view
from typedbatch.schema import check_of, find_problems, find_violations, matches, options_of, schema_of

if TYPE_CHECKING:
    from typedbatch.schema.fields import Schema

T = TypeVar("T")


Validator = Callable[[Any, str, str, Level], Any]
"""A function that validates a value and returns it typed. It takes the value, its name, the boundary and the level."""

UNSTEADY = "differs each time it is looked at"
"""Text of the problem if the check fails but no reason is found."""

_COMPILED: dict[Any, tuple[Callable[[object], bool], Validator]] = {}
"""The check and the validator of each schema or union used so far."""


@overload
def validate(batch: object, schema: TypeForm[T], /, *, level: Level | None = None) -> T: ...
@overload  # for jedi, which does not know TypeForm; type checkers never reach this overload
def validate(batch: object, schema: type[T], /, *, level: Level | None = None) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def validate(batch: object, schema: Any, /, *, level: Level | None = None) -> Any:
    """Check a batch against a protocol or record, and return it with that type.

    Every declared field must be there and have a declared kind (array, tensor, Batch, distribution, object), the
    declared dtype and the declared dimensions. The name of a dimension means the same size in the whole batch, nested
    batches included. A plain array or tensor has N rows and any further dimensions. Undeclared fields are allowed.

    Args:
        batch: Batch to check. Nothing in it is changed or copied.
        schema: Protocol, record, or union of them. With ``| None``, ``None`` passes too.
        level: ``"values"`` also checks rules on values, which reads every value. ``"structure"`` takes the same time
            for any number of rows. ``"off"`` checks nothing. None stands for the level set by :func:`checking` or
            ``TYPEDBATCH_CHECK``.

    Returns:
        The same object for a protocol. For a record, a view of that class: another object that shares the fields, so
        that a change to one is a change to both. A batch that is already of the class is returned itself.

    Raises:
        SchemaError: the batch does not match (a ``ValueError``). ``problems`` lists every difference.
        DeclarationError: ``schema`` is not a protocol or record.
        SettingError: ``level`` is not a level.
    """
    return validate_at(batch, schema, "", level)


def conforms(batch: object, schema: TypeForm[T], /) -> TypeIs[T]:
    """Return True if the structure of ``batch`` is right. It never raises for bad data, and type checkers narrow by it.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    check, _ = _compiled(schema)
    return check(batch)


def validate_at(batch: Any, schema: Any, boundary: str, level: Level | None = None, name: str = "") -> Any:
    """Validate like :func:`validate`, with a boundary named by the caller; if it is empty, the calling line is named.

    ``boundary`` is a format string with ``{}`` for ``name``. It is formatted only for a report.
    """
    _, validator = _compiled(schema)
    return validator(batch, name, boundary, current_level() if level is None else level)


def verbatim(boundary: str) -> str:
    """Escape the braces of a boundary, so that it is shown literally."""
    return boundary.replace("{", "{{").replace("}", "}}")


def validator_of(schema: Any) -> Validator:
    """Return the validator of a schema or union, compiled at the first call.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    return _compiled(schema)[1]


def _compiled(schema: Any) -> tuple[Callable[[object], bool], Validator]:
    try:
        return _COMPILED[schema]
    except (KeyError, TypeError):  # a new schema, or one that is not hashable, as Annotated[Rollout, ["a note"]]
        pass
    options = options_of(schema)
    schemas = tuple(schema_of(option) for option in options if option is not types.NoneType)
    compiled = (
        _compile_one(schemas[0])
        if len(options) == len(schemas) == 1
        else _compile_any(schemas, types.NoneType in options)
    )
    with suppress(TypeError):
        _COMPILED[schema] = compiled
    return compiled


def _compile_one(schema: Schema) -> tuple[Callable[[object], bool], Validator]:
    check = check_of(schema)
    target = schema.target if issubclass(schema.target, Batch) else object

    def validator(batch: Any, name: str, boundary: str, level: Level) -> Any:
        if level == "structure":
            typed = batch if isinstance(batch, target) or not isinstance(batch, Batch) else new_view(batch, target)
            if check(typed):
                return typed
        return _validate_any(batch, (schema,), boundary, level, name)

    return check, validator


def _compile_any(schemas: tuple[Schema, ...], none: bool) -> tuple[Callable[[object], bool], Validator]:
    """Return the check and the validator of a union. ``none`` tells whether None is a member of it."""

    def check(batch: object) -> bool:
        return (none and batch is None) or any(matches(batch, schema) for schema in schemas)

    def validator(batch: Any, name: str, boundary: str, level: Level) -> Any:
        if none and batch is None:
            level_named(level, "the level")
            return None
        if not schemas:
            raise DeclarationError(
                "None is not a schema of a batch; a schema inherits from BatchProtocol or BatchRecord"
            )
        return _validate_any(batch, schemas, boundary, level, name)

    return check, validator


def _validate_any(batch: Any, schemas: tuple[Schema, ...], boundary: str, level: Level, name: str) -> Any:
    """Return the batch typed as the first alternative that it matches, or raise an error about the closest one."""
    level = level_named(level, "the level")
    # The class of the batch comes first, so that a record keeps its class even if it matches another alternative too.
    ordered = sorted(schemas, key=lambda one: not (issubclass(one.target, Batch) and isinstance(batch, one.target)))
    if level == "off":
        return view(batch, ordered[0].target)
    reports: list[tuple[Schema, tuple[Problem, ...]]] = []
    for schema in ordered:
        problems = _problems(view(batch, schema.target), schema, level)
        if not problems:
            return view(batch, schema.target)
        reports.append((schema, problems))
    schema, problems = min(reports, key=lambda report: len(report[1]))
    where = boundary.format(name) if boundary else _call_site()
    got = ""
    if isinstance(batch, Tree):
        with suppress(Exception):  # for the reasons in _problems; the report does without the line
            got = summary(batch)
    raise SchemaError(schema.name, problems, got, where, schema.place)


def _problems(batch: object, schema: Schema, level: Level) -> tuple[Problem, ...]:
    try:
        if not matches(batch, schema):
            return find_problems(batch, schema) or (_unsteady(schema),)
        return find_violations(batch, schema) if level == "values" else ()
    except Exception:  # noqa: BLE001  # another thread may be writing to the batch, or the repr of an object may fail
        return (_unsteady(schema),)


def _unsteady(schema: Schema) -> Problem:
    return Problem("", "TB105 unreadable-field", "", UNSTEADY, schema.name, "is another thread writing to it?")


def _call_site() -> str:
    """Return the line outside the package that called, as ``validate() in update()  ppo.py:88``."""
    frame = sys._getframe(1)
    called = "validate"
    while is_own(frame) and frame.f_back is not None:
        called, frame = frame.f_code.co_name, frame.f_back
    code = frame.f_code
    where = "module" if code.co_name == "<module>" else f"{code.co_name}()"
    return f"{called}() in {where}  {show_place(code.co_filename, frame.f_lineno)}"


@overload
def extend(batch: BatchProtocol, into: TypeForm[T], /, **fields: object) -> T: ...
@overload  # for jedi, as above
def extend(batch: BatchProtocol, into: type[T], /, **fields: object) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def extend(batch: Any, into: Any, /, **fields: object) -> Any:
    """Return a new batch with the fields of ``batch`` and ``fields``, validated: the next stage of the data.

    ``extend(rollout, BatchWithReturns, returns=r)`` does not change ``rollout``. The arrays are shared.

    Args:
        batch: Any batch.
        into: Protocol or record of the result.
        **fields: New fields, each of which ``into`` must declare. ``meta=`` replaces the meta of ``batch``, which is
            copied otherwise (a shallow copy).

    Raises:
        FieldNameError: ``into`` does not declare a field in ``fields``.
        LeafError: ``batch`` is not a Batch.
        SchemaError: the result does not match ``into``, for example because a field is missing.
    """
    schema = schema_of(into)
    declared = [field.name for field in schema.fields]
    meta = as_meta(fields.pop("meta")) if "meta" in fields and "meta" not in declared else None
    for name in fields:
        if name not in declared:
            # An undeclared keyword is most likely a misspelled field that is still missing.
            present = {**getattr(batch, "__dict__", {}), **fields}
            missing = [field.name for field in schema.fields if not field.optional and field.name not in present]
            near = nearest(name, missing) or nearest(name, declared)
            hint = f"; did you mean {near!r}?" if near else ""
            raise FieldNameError(f"{schema.name} declares no field {name!r}{hint}")
    result = typed_copy(batch, schema, "extend()")
    Batch.update(result, fields)
    if meta is not None:
        set_meta(result, meta)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


def typed_copy(batch: Any, schema: Schema, who: str) -> Any:
    """Return a shallow copy of a batch, of the class that ``schema`` declares. Nested batches are copied likewise.

    Raises:
        LeafError: ``batch`` is not a Batch.
    """
    if not isinstance(batch, Batch):
        raise LeafError(f"{who} takes a Batch, got {describe(batch)}")
    nested = {field.name: field.nested for field in schema.fields}
    out = new_tree(class_for(schema, batch), {})
    for name, value in batch.__dict__.items():
        if isinstance(value, Batch):
            inner = next((candidate for candidate in nested.get(name, ()) if matches(value, candidate)), None)
            value = shallow(value) if inner is None else typed_copy(value, inner, who)
        out.__dict__[name] = value
    if type(batch.__dict__) is not dict:
        keep_meta(batch, out)
    return out


def class_for(schema: Schema, batch: object) -> type[Batch]:
    """Return the class of a new batch that will match ``schema``: the record itself, or for a protocol an open Batch.

    For a protocol, a subclass of Batch that is not a record is preserved.
    """
    if issubclass(schema.target, Batch):
        return schema.target
    return type(batch) if isinstance(batch, Batch) and not isinstance(batch, BatchRecord) else Batch
