"""The gate between open batches and typed ones: ``validate``, ``conforms`` and ``extend``."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm, TypeIs

from typedbatch._declaration import is_own, show_place
from typedbatch._level import Level, current_level, level_named
from typedbatch._names import nearest
from typedbatch._ops.copying import shallow
from typedbatch._ops.display import summary
from typedbatch._tree.leaves import Tree, describe, new_tree
from typedbatch._tree.meta import as_meta, keep_meta, set_meta
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, FieldNameError, LeafError, Problem, SchemaError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, fill_defaults, new_view, view
from typedbatch.schema import check_of, find_problems, find_violations, matches, options_of, schema_of

if TYPE_CHECKING:
    from typedbatch.schema.fields import Schema

T = TypeVar("T")


Gate = Callable[[Any, str, str, Level], Any]
"""Checks a batch: takes it, the name and the boundary for a report, and the level."""

UNSTEADY = "differs each time it is looked at"
"""What a report says where the check and its explanation disagree."""

_GATES: dict[Any, tuple[Callable[[object], bool], Gate]] = {}
"""For each schema, or union of them, that was asked for: whether a batch conforms, and its gate."""


@overload
def validate(batch: object, schema: TypeForm[T], /, *, level: Level | None = None) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def validate(batch: object, schema: type[T], /, *, level: Level | None = None) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def validate(batch: object, schema: Any, /, *, level: Level | None = None) -> Any:
    """Check a batch against a protocol or record, and hand it out under that type.

    Every declared field must be there, of a declared kind (array, tensor, Batch, distribution, object), of the declared
    dtype, and of the declared dimensions, whose names mean one size in the whole batch, nested batches included. A
    plain array or tensor has N rows and anything behind them. Fields that are not declared are no problem.

    Args:
        batch: the batch; nothing in it is changed or copied.
        schema: a protocol, a record, or a union of them; ``| None`` lets ``None`` pass.
        level: ``"values"`` checks rules on values as well, which reads every value; ``"structure"`` takes the same time
            for any number of rows; ``"off"`` checks nothing. None for the level that :func:`checking` or
            ``TYPEDBATCH_CHECK`` has set.

    Returns:
        For a protocol the very same object. For a record a view of that class: another object that shares the fields,
        so that what is set in one is set in both; a batch that is of the class already is returned itself.

    Raises:
        SchemaError: the batch differs; ``problems`` has every difference (a ``ValueError``).
        DeclarationError: ``schema`` is not a protocol or record.
        SettingError: there is no such level.
    """
    return validate_at(batch, schema, "", level)


def conforms(batch: object, schema: TypeForm[T], /) -> TypeIs[T]:
    """True when the structure of ``batch`` is right; narrows its type for checkers. Never raises for bad data.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    conforming, _ = _gate(schema)
    return conforming(batch)


def validate_at(batch: Any, schema: Any, boundary: str, level: Level | None = None, name: str = "") -> Any:
    """:func:`validate` for callers that name the boundary themselves; an empty one is the line that called.

    ``boundary`` has ``{}`` where ``name`` goes; the text is only made for a report.
    """
    _, gate = _gate(schema)
    return gate(batch, name, boundary, current_level() if level is None else level)


def verbatim(boundary: str) -> str:
    """A boundary that is shown as it is: what is in braces would be replaced."""
    return boundary.replace("{", "{{").replace("}", "}}")


def gate_of(schema: Any) -> Gate:
    """:func:`validate_at` for one schema or union, with everything looked up.

    Raises:
        DeclarationError: ``schema`` is not a protocol or record.
    """
    return _gate(schema)[1]


def _gate(schema: Any) -> tuple[Callable[[object], bool], Gate]:
    try:
        return _GATES[schema]
    except (KeyError, TypeError):  # not asked for yet, or not hashable, as Annotated[Rollout, ["a note"]] is not
        pass
    options = options_of(schema)
    schemas = tuple(schema_of(option) for option in options if option is not types.NoneType)
    gates = (
        _gate_of_one(schemas[0])
        if len(options) == len(schemas) == 1
        else _gate_of_any(schemas, types.NoneType in options)
    )
    with suppress(TypeError):
        _GATES[schema] = gates
    return gates


def _gate_of_one(schema: Schema) -> tuple[Callable[[object], bool], Gate]:
    conforming = check_of(schema)
    target = schema.target if issubclass(schema.target, Batch) else object

    def gate(batch: Any, name: str, boundary: str, level: Level) -> Any:
        if level == "structure":
            handed_out = batch if isinstance(batch, target) or not isinstance(batch, Batch) else new_view(batch, target)
            if conforming(handed_out):
                return handed_out
        return _validate_any(batch, (schema,), boundary, level, name)

    return conforming, gate


def _gate_of_any(schemas: tuple[Schema, ...], none: bool) -> tuple[Callable[[object], bool], Gate]:
    """For a union; ``none`` when None is in it."""

    def conforming(batch: object) -> bool:
        return (none and batch is None) or any(matches(batch, schema) for schema in schemas)

    def gate(batch: Any, name: str, boundary: str, level: Level) -> Any:
        if none and batch is None:
            level_named(level, "the level")
            return None
        if not schemas:
            raise DeclarationError(
                "None is not a schema of a batch; a schema inherits from BatchProtocol or BatchRecord"
            )
        return _validate_any(batch, schemas, boundary, level, name)

    return conforming, gate


def _validate_any(batch: Any, schemas: tuple[Schema, ...], boundary: str, level: Level, name: str) -> Any:
    """The first alternative that the batch matches; if none, the report on the one that comes closest."""
    level = level_named(level, "the level")
    # A record of one alternative stays one, also where it has the fields of another.
    ordered = sorted(schemas, key=lambda schema: not _is_record_of(batch, schema))
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
        with suppress(Exception):  # as in _problems
            got = summary(batch)
    raise SchemaError(schema.name, problems, got, where, schema.place)


def _is_record_of(batch: object, schema: Schema) -> bool:
    return issubclass(schema.target, Batch) and isinstance(batch, schema.target)


def _problems(batch: object, schema: Schema, level: Level) -> tuple[Problem, ...]:
    try:
        if not matches(batch, schema):
            return find_problems(batch, schema) or (_unsteady(schema),)
        return find_violations(batch, schema) if level == "values" else ()
    except Exception:  # noqa: BLE001  # a batch that another thread writes to, an object that cannot be described
        return (_unsteady(schema),)


def _unsteady(schema: Schema) -> Problem:
    return Problem("", "TB105 unreadable-field", "", UNSTEADY, schema.name, "is another thread writing to it?")


def _call_site() -> str:
    """The line outside the package that asked, as ``validate() in update()  ppo.py:88``."""
    frame = sys._getframe(1)
    asked = "validate"
    while is_own(frame) and frame.f_back is not None:
        asked, frame = frame.f_code.co_name, frame.f_back
    code = frame.f_code
    where = "module" if code.co_name == "<module>" else f"{code.co_name}()"
    return f"{asked}() in {where}  {show_place(code.co_filename, frame.f_lineno)}"


@overload
def extend(batch: BatchProtocol, into: TypeForm[T], /, **fields: object) -> T: ...
@overload  # for jedi, as above
def extend(batch: BatchProtocol, into: type[T], /, **fields: object) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def extend(batch: Any, into: Any, /, **fields: object) -> Any:
    """The next stage: a new batch with the fields of ``batch`` and ``fields``, validated.

    ``extend(rollout, BatchWithReturns, returns=r)`` leaves ``rollout`` as it is; the arrays are shared.

    Args:
        batch: any batch.
        into: the protocol or record to become.
        **fields: what is new; each must be declared by ``into``. ``meta=`` replaces the meta of ``batch``, which is
            kept otherwise.

    Raises:
        FieldNameError: a field that ``into`` does not declare.
        SchemaError: the result does not match ``into``, for example because a field is missing.
    """
    schema = schema_of(into)
    declared = [field.name for field in schema.fields]
    meta = as_meta(fields.pop("meta")) if "meta" in fields and "meta" not in declared else None
    for name in fields:
        if name not in declared:
            raise FieldNameError(_not_taken(name, schema, {**getattr(batch, "__dict__", {}), **fields}))
    result = typed_copy(batch, schema, "extend()")
    Batch.update(result, fields)
    if meta is not None:
        set_meta(result, meta)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


def _not_taken(name: str, schema: Schema, given: Collection[str]) -> str:
    """What is said of a keyword that a schema does not declare: it is likely a field that nobody gives."""
    lacking = tuple(field.name for field in schema.fields if not field.optional and field.name not in given)
    near = nearest(name, lacking) or nearest(name, [field.name for field in schema.fields])
    return f"{schema.name} declares no field {name!r}" + (f"; did you mean {near!r}?" if near else "")


def typed_copy(batch: Any, schema: Schema, who: str) -> Any:
    """A shallow copy of a batch, of the class that ``schema`` asks for; nested batches likewise.

    Raises:
        LeafError: ``batch`` is not a Batch.
    """
    if not isinstance(batch, Batch):
        raise LeafError(f"{who} takes a Batch, got {describe(batch)}")
    nested = {field.name: field.nested for field in schema.fields}
    out = new_tree(class_for(schema, batch), {})
    for name, value in batch.__dict__.items():
        if isinstance(value, Batch):
            inner = next((one for one in nested.get(name, ()) if matches(value, one)), None)
            value = shallow(value) if inner is None else typed_copy(value, inner, who)
        out.__dict__[name] = value
    if type(batch.__dict__) is not dict:
        keep_meta(batch, out)
    return out


def class_for(schema: Schema, batch: object) -> type[Batch]:
    """The class of a new batch that is to match ``schema``: the record itself, for a protocol an open Batch."""
    if issubclass(schema.target, Batch):
        return schema.target
    return type(batch) if isinstance(batch, Batch) and not isinstance(batch, BatchRecord) else Batch
