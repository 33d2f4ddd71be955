"""The gate between open batches and typed ones: ``validate``, ``conforms``, ``extend``, ``convert``, ``checked``."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from typing_extensions import TypeForm, TypeIs

from typedbatch.batch import Batch
from typedbatch.conversion import leaf_to_numpy, leaf_to_torch, map_leaves
from typedbatch.copying import shallow
from typedbatch.display import summary
from typedbatch.errors import FieldNameError, SchemaError, did_you_mean
from typedbatch.leaves import BATCH, KINDS, TENSOR, Kind, Tree, kind_of, new_tree
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord
from typedbatch.schema import Field, Schema, find_problems, is_schema, matches, schema_of

if TYPE_CHECKING:
    from typedbatch.conversion import Device

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


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
    return _validate(batch, schema, "")


def conforms(batch: object, schema: TypeForm[T], /) -> TypeIs[T]:
    """True when :func:`validate` would pass; narrows the type of ``batch`` for checkers. Never raises for bad data.

    Raises:
        DeclarationError: ``schema`` is no protocol or record.
    """
    return any(_conforms(batch, option) for option in _options(schema))


def _conforms(batch: object, option: Any) -> bool:
    return batch is None if option in (None, types.NoneType) else matches(batch, schema_of(option))


def _validate(batch: object, schema: Any, boundary: str) -> Any:
    options = _options(schema)
    for option in options:
        if _conforms(batch, option):
            return batch if batch is None else _under(batch, schema_of(option).target)
    # Of a union, explain the alternative that came closest.
    reports = [(option, find_problems(batch, schema_of(option))) for option in options if option is not types.NoneType]
    option, problems = min(reports, key=lambda report: len(report[1]))
    got = summary(batch) if isinstance(batch, Tree) else ""
    raise SchemaError(schema_of(option).name, problems, got, boundary or _call_site())


def _options(schema: Any) -> tuple[Any, ...]:
    return get_args(schema) if get_origin(schema) in (Union, types.UnionType) else (schema,)


def _under(batch: Any, target: type) -> Any:
    if not issubclass(target, BatchRecord) or isinstance(batch, target):
        return batch
    view = object.__new__(target)
    object.__setattr__(view, "__dict__", batch.__dict__)
    return view


def _call_site() -> str:
    """The line outside this file that asked, as ``validate() in update()  ppo.py:88``."""
    frame = sys._getframe(1)
    asked = "validate"
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
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
    result = new_tree(_class_for(schema, batch), shallow(batch).__dict__)
    Batch.update(result, fields)
    return _validate(result, into, "")


def _class_for(schema: Schema, batch: object) -> type[Batch]:
    if issubclass(schema.target, Batch):
        return schema.target
    return type(batch) if isinstance(batch, Batch) and not isinstance(batch, BatchRecord) else Batch


@overload
def convert(batch: BatchProtocol, into: TypeForm[T], /, *, device: Device | None = None) -> T: ...
@overload  # for jedi, as above
def convert(batch: BatchProtocol, into: type[T], /, *, device: Device | None = None) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def convert(batch: Any, into: Any, /, *, device: Device | None = None) -> Any:
    """The other stage: a new batch whose arrays are tensors, or whose tensors are arrays, as ``into`` asks, validated.

    ``convert(rollout, RolloutBatch[Tensor])`` leaves ``rollout`` as it is. CPU memory is shared where it can be. Each
    declared field becomes what its declaration takes; one that takes both stays; undeclared fields follow the majority.

    Args:
        batch: any batch.
        into: the protocol or record to become.
        device: where tensors go; None leaves them where they are.

    Raises:
        LeafError: a field of a dtype that torch lacks.
        SchemaError: the result does not match ``into``.
    """
    schema = schema_of(into)
    to_torch = leaf_to_torch(None, device) if _asks_for_torch(schema) or device is not None else leaf_to_numpy
    wants_torch = _asks_for_torch(schema)
    result = new_tree(_class_for(schema, batch), {})
    for name, value in shallow(batch).__dict__.items():
        field = next((field for field in schema.fields if field.name == name), None)
        tensors = wants_torch if field is None or field.kinds is None or field.nested else _wants_tensor(value, field)
        turn = to_torch if tensors else leaf_to_numpy
        result.__dict__[name] = map_leaves(value, turn) if kind_of(value) is BATCH else turn(value)
    return _validate(result, into, "")


def _asks_for_torch(schema: Schema) -> bool:
    """Whether more of the fields, nested ones included, take only tensors than take only arrays."""
    return _votes(schema, set()) > 0


def _votes(schema: Schema, seen: set[int]) -> int:
    if id(schema) in seen:
        return 0
    seen.add(id(schema))
    votes = sum(_votes(nested, seen) for field in schema.fields for nested in field.nested)
    for field in schema.fields:
        kinds = field.kinds or frozenset()
        votes += (Kind.TENSOR in kinds) - (Kind.ARRAY in kinds)
    return votes


def _wants_tensor(value: Any, field: Field) -> bool:
    kinds = field.kinds or frozenset()
    if Kind.TENSOR in kinds and Kind.ARRAY in kinds:
        return KINDS[type(value)] is TENSOR
    return Kind.TENSOR in kinds


def checked(function: F, /) -> F:
    """Validate what a function takes and returns, by its annotations.

    Arguments annotated with a protocol or record, or a union of them, are passed through :func:`validate`, and so is
    the return value. With ``TYPEDBATCH_CHECK=off`` in the environment the function itself is returned, at no cost.

    Raises:
        SchemaError: at a call; ``boundary`` names the argument and the function.
        DeclarationError: at the first call, an annotation cannot be read.
    """
    if os.environ.get("TYPEDBATCH_CHECK", "").lower() == "off":
        return function
    plan: list[_Plan] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not plan:  # at the first call, when names defined further down the module exist
            plan.append(_Plan(function))
        args, kwargs = plan[0].arguments(args, kwargs)
        return plan[0].result(function(*args, **kwargs))

    return call  # type: ignore[return-value]  # wraps keeps the signature, which F stands for


class _Plan:
    """Which arguments of a function are validated, and against what."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function)
        code = function.__code__
        file = os.path.basename(code.co_filename)
        place = f"{function.__module__}.{function.__qualname__}()  {file}:{code.co_firstlineno}"
        self.returns = hints["return"] if _is_checkable(hints.get("return")) else None
        self.returned = f"return value of {place}"
        self.parameters = [
            (position, name, hints[name], f"argument `{name}` of {place}")
            for position, name in enumerate(inspect.signature(function).parameters)
            if _is_checkable(hints.get(name))
        ]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for position, name, hint, boundary in self.parameters:
            if position < len(args):
                value = _validate(args[position], hint, boundary)
                args = (*args[:position], value, *args[position + 1 :])
            elif name in kwargs:
                kwargs = {**kwargs, name: _validate(kwargs[name], hint, boundary)}
        return args, kwargs

    def result(self, value: Any) -> Any:
        return value if self.returns is None else _validate(value, self.returns, self.returned)


def _is_checkable(hint: Any) -> bool:
    options = _options(hint)
    schemas = [option for option in options if is_schema(option)]
    return bool(schemas) and all(is_schema(option) or option is types.NoneType for option in options)
