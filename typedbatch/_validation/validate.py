"""``validate``, ``conforms`` and ``extend``, which turn open batches into typed ones."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm, TypeIs

from typedbatch._core.compiling import break_graph, is_compiling
from typedbatch._core.declaration import is_own, show_place
from typedbatch._core.kinds import Tree, describe, new_tree
from typedbatch._core.level import Level, current_level, level_named, values_are_due
from typedbatch._core.meta import as_meta, keep_meta, set_meta
from typedbatch._names import nearest
from typedbatch._ops.construct import fill
from typedbatch._ops.copying import shallow
from typedbatch._ops.display import summary
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, FieldNameError, LeafError, Problem, SchemaError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, fill_defaults, new_view, view
from typedbatch.schema import schema_of

if TYPE_CHECKING:
    from typedbatch.schema.fields import Schema
    from typedbatch.schema.generate import Check

T = TypeVar("T")

Boundary = Callable[[str], str]
"""A function that returns the description of a boundary from the name of a value; if it is empty, the calling line is
named. It is called only for a report."""

Validator = Callable[[Any, str, Boundary, Level], Any]
"""A function that validates a value and returns it typed. It takes the value, its name, the boundary and the level."""

UNSTEADY = "differs each time it is looked at"
"""Text of the problem if the check fails but no reason is found."""

_COMPILED: dict[Any, tuple[Check, Validator]] = {}
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
    return _compiled(schema)[0](batch)


def validate_at(batch: Any, schema: Any, boundary: str, level: Level | None = None) -> Any:
    """Validate like :func:`validate`, at a boundary that the caller describes."""
    return validator_of(schema)(batch, boundary, str, current_level() if level is None else level)


def validator_of(schema: Any) -> Validator:
    """Return the validator of a schema or union, compiled at the first call."""
    return _compiled(schema)[1]


def _compiled(schema: Any) -> tuple[Check, Validator]:
    try:
        return _COMPILED[schema]
    except (KeyError, TypeError):  # a new schema, or one that is not hashable, as Annotated[Rollout, ["a note"]]
        pass
    if is_compiling():
        break_graph("the first validation by a class reads its declaration; validate a batch by it before compiling")
    # Imported here so that ``import typedbatch`` does not wait for them.
    from typedbatch.schema.generate import check_of
    from typedbatch.schema.read import options_of

    options = options_of(schema)
    schemas = [schema_of(option) for option in options if option is not types.NoneType]
    checks = [(known, check_of(known)) for known in schemas]
    single = len(options) == len(checks) == 1
    compiled = _compile_one(*checks[0]) if single else _compile_any(checks, types.NoneType in options)
    with suppress(TypeError):
        _COMPILED[schema] = compiled
    return compiled


def _compile_one(schema: Schema, check: Check) -> tuple[Check, Validator]:
    target = schema.target if issubclass(schema.target, Batch) else object

    def validator(batch: Any, name: str, boundary: Boundary, level: Level) -> Any:
        typed = batch if isinstance(batch, target) or not isinstance(batch, Batch) else new_view(batch, target)
        if level != "structure":
            level = level_named(level, "the level")
        if level == "off":
            return typed
        right = check(typed)
        if right and level == "structure":
            return typed
        if right and (is_compiling() or not values_are_due(lambda: boundary(name) or _calling_place())):
            return typed
        if is_compiling():
            break_graph(f"a batch is not a {schema.name}; a call without torch.compile has the report")
        if problems := _problems(typed, schema, right):
            raise _error(batch, schema, problems, boundary(name))
        return typed

    return check, validator


def _compile_any(checks: list[tuple[Schema, Check]], none: bool) -> tuple[Check, Validator]:
    """Return the check and the validator of a union. ``none`` tells whether None is a member of it."""

    def check_any(batch: object) -> bool:
        return (none and batch is None) or any(check(batch) for _, check in checks)

    def validator(batch: Any, name: str, boundary: Boundary, level: Level) -> Any:
        level = level_named(level, "the level")
        if none and batch is None:
            return None
        if not checks:
            text = "None is not a schema of a batch; a schema inherits from BatchProtocol or BatchRecord"
            raise DeclarationError(text)
        # The class of the batch comes first, so that a record keeps its class even if it matches another member too.
        own = [known for known in checks if issubclass(known[0].target, Batch) and isinstance(batch, known[0].target)]
        ordered = [*own, *(known for known in checks if known not in own)]
        if level == "off":
            return view(batch, ordered[0][0].target)
        reports: list[tuple[Schema, tuple[Problem, ...]]] = []
        for schema, check in ordered:
            typed = view(batch, schema.target)
            right = check(typed)
            reads = level != "structure" and values_are_due(lambda: boundary(name) or _calling_place())
            problems = () if right and not reads else _problems(typed, schema, right)
            if not problems:
                return typed
            reports.append((schema, problems))
        closest, problems = min(reports, key=lambda report: len(report[1]))
        raise _error(batch, closest, problems, boundary(name))

    return check_any, validator


def _problems(batch: object, schema: Schema, right: bool) -> tuple[Problem, ...]:
    """Return why a batch does not match, or if its structure is right, the rules on values that do not hold."""
    from typedbatch.schema.explain import find_problems
    from typedbatch.schema.violations import find_violations

    unsteady = Problem("", "TB105 unreadable-field", "", UNSTEADY, schema.name, "is another thread writing to it?")
    try:
        return find_violations(batch, schema) if right else find_problems(batch, schema) or (unsteady,)
    except Exception:  # noqa: BLE001  # another thread may be writing to the batch, or the repr of an object may fail
        return (unsteady,)


def _error(batch: object, schema: Schema, problems: tuple[Problem, ...], boundary: str) -> SchemaError:
    got = ""
    if isinstance(batch, Tree):
        with suppress(Exception):  # for the reasons in _problems; the report does without the line
            got = summary(batch)
    return SchemaError(schema.name, problems, got, boundary or _calling_place(), schema.place)


def _calling_place() -> str:
    """Return the line outside of the package that called, as ``validate() in update()  ppo.py:88``."""
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
    meta = as_meta(fields.pop("meta")) if "meta" in fields and "meta" not in schema.nested else None
    if not fields.keys() <= schema.nested.keys():
        raise _undeclared(fields, schema, batch)
    result = typed_copy(batch, schema, "extend()")
    fill(result.__dict__, fields, type(result))
    if meta is not None:
        set_meta(result, meta)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


def _undeclared(fields: dict[str, object], schema: Schema, batch: Any) -> FieldNameError:
    """Return the error for the first of some new fields that a schema does not declare."""
    declared = [*schema.nested]
    name = next(name for name in fields if name not in declared)
    # An undeclared keyword is most likely a misspelled field that is still missing.
    present = {**getattr(batch, "__dict__", {}), **fields}
    missing = [field.name for field in schema.fields if not field.optional and field.name not in present]
    near = nearest(name, missing) or nearest(name, declared)
    hint = f"; did you mean {near!r}?" if near else ""
    return FieldNameError(f"{schema.name} declares no field {name!r}{hint}")


def typed_copy(batch: Any, schema: Schema, who: str) -> Any:
    """Return a shallow copy of a batch, of the class that ``schema`` declares. Nested batches are copied likewise."""
    if not isinstance(batch, Batch):
        raise LeafError(f"{who} takes a Batch, got {describe(batch)}")
    out = new_tree(class_for(schema, batch), {})
    for name, value in batch.__dict__.items():
        if isinstance(value, Batch):
            inner = first_match(value, schema.nested.get(name, ()))
            value = shallow(value) if inner is None else typed_copy(value, inner, who)
        out.__dict__[name] = value
    if type(batch.__dict__) is not dict:
        keep_meta(batch, out)
    return out


def first_match(batch: Batch, schemas: Sequence[Schema]) -> Schema | None:
    """Return the first schema that a batch matches, or None."""
    if not schemas:
        return None
    from typedbatch.schema.generate import check_of  # imported here so that ``import typedbatch`` does not wait for it

    return next((schema for schema in schemas if check_of(schema)(batch)), None)


def class_for(schema: Schema, batch: object) -> type[Batch]:
    """Return the class of a new batch that will match ``schema``: the record itself, or for a protocol an open Batch.

    For a protocol, a subclass of Batch that is not a record is preserved.
    """
    if issubclass(schema.target, Batch):
        return schema.target
    return type(batch) if isinstance(batch, Batch) and not isinstance(batch, BatchRecord) else Batch
