"""From one kind to the other: ``convert`` makes a numpy batch a torch batch, and back, under its type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._ops.conversion import leaf_to_device, leaf_to_numpy
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, RAGGED, TENSOR, Kind, describe, new_sequences, new_tree
from typedbatch._tree.meta import keep_meta
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
@overload  # jedi does not know TypeForm; it reads this one, and checkers never reach it
def convert(  # type: ignore[overload-cannot-match]
    batch: BatchProtocol,
    into: type[T],
    /,
    *,
    device: Device | None = None,
    dtype: Dtype | None = None,  # pyright: ignore[reportOverlappingOverload]
) -> T: ...
def convert(batch: Any, into: Any, /, *, device: Device | None = None, dtype: Dtype | None = None) -> Any:
    """Make a new batch whose arrays are tensors, or whose tensors are arrays, as ``into`` asks, and validate it.

    ``convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)`` leaves ``rollout`` as it is. CPU memory is shared
    where no other dtype or device is asked for. Each declared field becomes what its declaration takes; one that takes
    both stays; undeclared fields follow the majority.

    Args:
        batch: any batch.
        into: the protocol or record to become.
        device: where tensors go; None leaves them where they are.
        dtype: dtype of the floating tensors; integers and flags keep theirs. None keeps all.

    Raises:
        LeafError: a field of a dtype that torch lacks.
        SchemaError: the result does not match ``into``.
        SettingError: torch has no such device, ``dtype`` is not a floating dtype of torch, or ``into`` declares no
            tensors that could have it.
    """
    schema = schema_of(into)
    if not isinstance(batch, Batch):
        raise LeafError(f"convert() takes a Batch, got {describe(batch)}")
    plan = _plan_of(schema)
    turns: dict[Kind, Turn] = {ARRAY: leaf_to_numpy}
    if plan.has_tensors:
        turns[TENSOR] = leaf_to_device(device, dtype)
    elif dtype is not None:
        raise SettingError(
            f"dtype= is for tensors, and {schema.name} declares none; ask for tensors, as RolloutBatch[Tensor]"
        )
    result = new_tree(class_for(schema, batch), _converted(batch, plan, plan.kind, turns))
    if type(batch.__dict__) is not dict:
        keep_meta(batch, result)
    fill_defaults(type(result), result.__dict__)
    return validate_at(result, into, "")


class _Plan:
    """What the fields of a schema are turned into.

    Attributes:
        kind: what most of the fields take, those of nested schemas included.
        has_tensors: whether any field takes tensors.
        leaves: what each field is turned into; None for one that takes arrays and tensors.
        nested: the schemas of nested batches.
        sequences: the schemas of what is in a ``Ragged``.
    """

    __slots__ = ("has_tensors", "kind", "leaves", "nested", "sequences")

    def __init__(self, schema: Schema) -> None:
        kinds = [option.kind for option in schema.every_option()]
        self.has_tensors: bool = TENSOR in kinds
        self.kind: Kind = TENSOR if kinds.count(TENSOR) > kinds.count(ARRAY) else ARRAY
        self.leaves: dict[str, Kind | None] = {}
        self.nested: dict[str, Schema] = {field.name: field.nested[0] for field in schema.fields if field.nested}
        self.sequences: dict[str, Schema] = {}
        for field in schema.fields:
            takes = (field.kinds or frozenset()) & _LEAVES
            self.leaves[field.name] = None if len(takes) == 2 else next(iter(takes), self.kind)
            values = [option.schema for option in field.options if option.kind is RAGGED and option.schema is not None]
            self.sequences.update({field.name: values[0]} if values else {})


_LEAVES = frozenset({ARRAY, TENSOR})
_NOTHING: dict[str, Any] = {}
_plan_of = cache(_Plan)


def _converted(batch: Any, plan: _Plan | None, kind: Kind, turns: dict[Kind, Turn]) -> dict[str, Any]:
    """The fields of a batch, those that are not declared as the kind that most are."""
    leaves, nested, sequences = (plan.leaves, plan.nested, plan.sequences) if plan is not None else (_NOTHING,) * 3
    out = {}
    name = ""
    try:
        for name, value in batch.__dict__.items():
            own = KINDS[type(value)]
            if own is BATCH:
                out[name] = _converted_batch(value, nested.get(name), kind, turns)
            elif own is RAGGED:
                values = _converted_batch(value.values, sequences.get(name), kind, turns)
                out[name] = new_sequences(type(value), values, value.sizes)
            else:
                wanted = leaves.get(name, kind)
                if wanted is None:
                    wanted = own if own in _LEAVES else kind
                out[name] = turns[wanted](value)
    except TypedBatchError as error:
        raise error.under(name) from error.__cause__
    return out


def _converted_batch(batch: Any, schema: Schema | None, kind: Kind, turns: dict[Kind, Turn]) -> Any:
    if schema is None:
        return new_tree(type(batch), _converted(batch, None, kind, turns))
    plan = _plan_of(schema)
    return new_tree(class_for(schema, batch), _converted(batch, plan, plan.kind, turns))
