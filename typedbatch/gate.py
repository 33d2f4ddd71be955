"""The gate between open batches and typed ones: ``validate``, ``conforms`` and ``extend``."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, TypeVar, overload

from typing_extensions import TypeForm, TypeIs

from typedbatch.batch import Batch
from typedbatch.copying import shallow
from typedbatch.display import summary
from typedbatch.errors import DeclarationError, FieldNameError, LeafError, SchemaError, did_you_mean
from typedbatch.leaves import Tree, describe, new_tree
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord, fill_defaults
from typedbatch.schema import Schema, find_problems, matches, options_of, schema_of

T = TypeVar("T")


@overload
def validate(batch: object, schema: TypeForm[T], /) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def validate(batch: object, schema: type[T], /) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def validate(batch: object, schema: Any, /) -> Any:
    """Check a batch against a protocol or record, and hand it out under that type.

    Every declared field must be there, of a declared kind (array, tensor, Batch, distribution, object), and all with
    the same number of rows, those of nested batches included. Fields that are not declared are no problem.

    Args:
        batch: the batch; nothing in it is changed or copied.
        schema: a protocol, a record, or a union of them; ``| None`` lets ``None`` pass.

    Returns:
        For a protocol the very same object. For a record a view of that class: another object that shares the fields,
        so that what is set in one is set in both; a batch that is of the class already is returned itself.

    Raises:
        SchemaError: the batch differs; ``problems`` has every difference (a ``ValueError``).
        DeclarationError: ``schema`` is no protocol or record.
    """
    return check(batch, schema, "")


def conforms(batch: object, schema: TypeForm[T], /) -> TypeIs[T]:
    """True when :func:`validate` would pass; narrows the type of ``batch`` for checkers. Never raises for bad data.

    Raises:
        DeclarationError: ``schema`` is no protocol or record.
    """
    return any(_conforms(batch, option) for option in options_of(schema))


def _conforms(batch: object, option: Any) -> bool:
    return batch is None if option is types.NoneType else matches(batch, schema_of(option))


def check(batch: object, schema: Any, boundary: str) -> Any:
    """:func:`validate` for callers that name the boundary themselves; an empty one is the line that called."""
    options = options_of(schema)
    if options == (types.NoneType,) and batch is not None:
        raise DeclarationError("None is no schema of a batch; a schema inherits from BatchProtocol or BatchRecord")
    for option in options:
        if _conforms(batch, option):
            return batch if batch is None else _under(batch, schema_of(option).target)
    # Of a union, explain the alternative that came closest.
    reports = [(option, find_problems(batch, schema_of(option))) for option in options if option is not types.NoneType]
    option, problems = min(reports, key=lambda report: len(report[1]))
    got = summary(batch) if isinstance(batch, Tree) else ""
    raise SchemaError(schema_of(option).name, problems, got, boundary or _call_site())


def _under(batch: Any, target: type) -> Any:
    if not issubclass(target, Batch) or isinstance(batch, target):
        return batch
    view = object.__new__(target)
    object.__setattr__(view, "__dict__", batch.__dict__)
    return view


def _call_site() -> str:
    """The line outside the package that asked, as ``validate() in update()  ppo.py:88``."""
    frame = sys._getframe(1)
    asked = "validate"
    while frame.f_globals.get("__package__") == __package__ and frame.f_back is not None:
        asked, frame = frame.f_code.co_name, frame.f_back
    code = frame.f_code
    where = "module" if code.co_name == "<module>" else f"{code.co_name}()"
    return f"{asked}() in {where}  {os.path.basename(code.co_filename)}:{frame.f_lineno}"


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
        **fields: what is new; each must be declared by ``into``.

    Raises:
        FieldNameError: a field that ``into`` does not declare.
        SchemaError: the result does not match ``into``, because a field is missing for one.
    """
    schema = schema_of(into)
    declared = [field.name for field in schema.fields]
    for name in fields:
        if name not in declared:
            raise FieldNameError(f"{schema.name} declares no field {name!r}{did_you_mean(name, declared)}")
    result = typed_copy(batch, schema, "extend()")
    Batch.update(result, fields)
    fill_defaults(type(result), result.__dict__)
    return check(result, into, "")


def typed_copy(batch: Any, schema: Schema, who: str) -> Any:
    """A shallow copy of a batch, of the class that ``schema`` asks for; nested batches likewise.

    Raises:
        LeafError: ``batch`` is no Batch.
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
    return out


def class_for(schema: Schema, batch: object) -> type[Batch]:
    """The class of a new batch that is to match ``schema``: the record itself, for a protocol an open Batch."""
    if issubclass(schema.target, Batch):
        return schema.target
    return type(batch) if isinstance(batch, Batch) and not isinstance(batch, BatchRecord) else Batch
