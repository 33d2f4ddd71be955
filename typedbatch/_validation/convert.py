"""``convert``, which turns a numpy batch into a torch batch, or the reverse, and validates the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._core import kinds
from typedbatch._core.compiling import break_graph, is_compiling
from typedbatch._core.kinds import KINDS, Kind, describe, is_objects, new_sequences, new_tree
from typedbatch._core.meta import keep_meta
from typedbatch._ops.conversion import leaf_to_device, leaf_to_numpy
from typedbatch._validation.validate import class_for, validate_at
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SettingError, TypedBatchError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import fill_defaults
from typedbatch.schema import schema_of

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype
    from typedbatch.schema.fields import Schema

T = TypeVar("T")
Turn = Callable[[Any], Any]


@overload
def convert(
    batch: BatchProtocol, into: TypeForm[T], /, *, device: Device | None = None, dtype: Dtype | None = None
) -> T: ...
@overload  # for jedi, which does not know TypeForm; type checkers never reach this overload
def convert(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    batch: BatchProtocol, into: type[T], /, *, device: Device | None = None, dtype: Dtype | None = None
) -> T: ...
def convert(batch: Any, into: Any, /, *, device: Device | None = None, dtype: Dtype | None = None) -> Any:
    """Convert a batch to the arrays or tensors that ``into`` declares, and validate the result.

    ``convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)`` returns a new batch and does not change ``rollout``.
    Memory on the CPU is shared unless the dtype or device changes. A declared field becomes an array or a tensor, as
    declared; a field that may be either keeps its kind. An undeclared field gets the kind that most declared fields
    have.

    Args:
        batch: Any batch.
        into: Protocol or record of the result.
        device: Device of all tensors; None keeps the device of each.
        dtype: Dtype of the floating tensors; None keeps the dtype of each. Integers and flags always keep theirs.

    Raises:
        LeafError: ``batch`` is not a Batch, or a field has a dtype that torch lacks.
        SchemaError: the result does not match ``into``.
        SettingError: ``device`` is not a device of torch, ``dtype`` is not a floating dtype of torch, or ``dtype`` is
            given and ``into`` declares no tensors.
    """
    if is_compiling():
        break_graph("convert() makes tensors of arrays; call it before the compiled function, on the way to the model")
    schema = schema_of(into)
    if not isinstance(batch, Batch):
        raise LeafError(f"convert() takes a Batch, got {describe(batch)}")
    plan = _plan_of(schema)
    turns: dict[Kind, Turn] = {kinds.ARRAY: leaf_to_numpy}
    if plan.has_tensors:
        turns[kinds.TENSOR] = leaf_to_device(device, dtype)
    elif dtype is not None:
        text = f"dtype= is for tensors, and {schema.name} declares none; declare tensors, as in RolloutBatch[Tensor]"
        raise SettingError(text)
    result = _converted(batch, schema, plan.kind, turns)
    if type(batch.__dict__) is not dict:
        keep_meta(batch, result)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


class _Plan:
    """The kinds to which the fields of a schema are converted.

    Attributes:
        kind: Most common kind of all fields, those of nested schemas included: array or tensor.
        has_tensors: Whether any field takes tensors.
        leaves: Kind to which each field is converted; None for a field that takes arrays and tensors.
        nested: Schemas of nested batches, by field.
        sequences: Schemas of the values of each ``Ragged``, by field.
    """

    __slots__ = ("has_tensors", "kind", "leaves", "nested", "sequences")

    def __init__(self, schema: Schema) -> None:
        found = [option.kind for option in schema.every_option()]
        self.has_tensors: bool = kinds.TENSOR in found
        self.kind: Kind = kinds.TENSOR if found.count(kinds.TENSOR) > found.count(kinds.ARRAY) else kinds.ARRAY
        self.leaves: dict[str, Kind | None] = {}
        self.nested: dict[str, Schema] = {name: schemas[0] for name, schemas in schema.nested.items() if schemas}
        self.sequences: dict[str, Schema] = {}
        for field in schema.fields:
            takes = (field.kinds or frozenset()) & _LEAVES
            self.leaves[field.name] = None if len(takes) == 2 else next(iter(takes), self.kind)
            for option in reversed(field.options):
                if option.kind is kinds.RAGGED and option.schema is not None:
                    self.sequences[field.name] = option.schema


_LEAVES = frozenset({kinds.ARRAY, kinds.TENSOR})
_NOTHING: dict[str, Any] = {}
_plan_of = cache(_Plan)


def _converted(batch: Any, schema: Schema | None, kind: Kind, turns: dict[Kind, Turn]) -> Any:
    """Return the converted batch. Fields that no schema declares are converted to ``kind``, or the kind of its plan."""
    plan = None if schema is None else _plan_of(schema)
    leaves, nested, sequences = (plan.leaves, plan.nested, plan.sequences) if plan is not None else (_NOTHING,) * 3
    kind = kind if plan is None else plan.kind
    out: dict[str, Any] = {}
    name = ""
    try:
        for name, value in batch.__dict__.items():
            own = KINDS[type(value)]
            if own is kinds.BATCH:
                out[name] = _converted(value, nested.get(name), kind, turns)
            elif own is kinds.RAGGED:
                values = _converted(value.values, sequences.get(name), kind, turns)
                out[name] = new_sequences(type(value), values, value.sizes)
            else:
                wanted = leaves.get(name, kind)
                if wanted is None:
                    wanted = own if own in _LEAVES else kind
                if kinds.TENSOR in turns and is_objects(value):  # The column stays, and the tensors in it move.
                    wanted = kinds.TENSOR
                out[name] = turns[wanted](value)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    return new_tree(type(batch) if schema is None else class_for(schema, batch), out)
