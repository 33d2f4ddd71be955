"""Types of values that a batch takes in: the static side of ``typedbatch._ops.construct``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    ARG_STAR2,
    CallExpr,
    DictExpr,
    Expression,
    ListExpr,
    RefExpr,
    StarExpr,
    StrExpr,
    TupleExpr,
)
from mypy.types import (
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    TupleType,
    Type,
    TypedDictType,
    UnionType,
    get_proper_type,
)

from typedbatch.mypy.internals import Api, class_named, same, type_of
from typedbatch.mypy.types.fields import (
    BATCH,
    Fields,
    Rest,
    alternatives,
    anything,
    batch_of,
    is_batch,
    known_fields,
    met,
    plain_batch,
)

TENSOR = "torch._tensor.Tensor"
_NUMBERS = {"builtins.int", "builtins.float", "builtins.bool", "builtins.complex"}
_DEPTH = 4
_MOST_NESTED = 20
_SEQUENCES = {"builtins.list", "builtins.tuple"}


def stored(api: Api, value: Expression | None, type_: Type) -> Type:
    """Return the type of a field that is given a value: a list or number becomes an array, a dict a Batch."""
    if value is not None and (isinstance(value, DictExpr) or _is_dict_call(value)):
        return batch_of(api, fields_of_data(api, value) or _UNKNOWN)
    if isinstance(value, (ListExpr, TupleExpr)) and value.items:
        rows = _fields_of_rows(api, value)
        if rows is not None:
            return batch_of(api, rows)
        if not any(isinstance(item, (StarExpr, DictExpr)) for item in value.items):  # mypy may have widened the list
            kept = [get_proper_type(stored(api, item, type_of(api, item))) for item in value.items]
            return _of_kept(api, kept)
    return _stored_type(api, get_proper_type(type_))


_UNKNOWN = Fields(rest=Rest.DECLARED)
"""Of data whose names are not written out."""


def fields_of_data(api: Api, data: Expression) -> Fields | None:
    """Return the fields that ``Batch(data)`` has; None when they cannot be known."""
    if isinstance(data, DictExpr):
        return _fields_of_display(api, data)
    if isinstance(data, CallExpr) and _is_dict_call(data):
        return fields_of_arguments(api, data)
    if isinstance(data, (ListExpr, TupleExpr)):
        return _fields_of_rows(api, data)
    ways = [_fields_of_mapping(api, one) for one in alternatives(type_of(api, data))]
    known = [fields for fields in ways if fields is not None]
    return met(api, known) if known and len(known) == len(ways) else None


def fields_of_arguments(api: Api, call: CallExpr, skip: tuple[str, ...] = ()) -> Fields:
    """Return the fields that the arguments of ``Batch(...)``, ``dict(...)`` or ``update(...)`` make."""
    fields = Fields()
    for value, kind, name in zip(call.args, call.arg_kinds, call.arg_names, strict=True):
        given: Fields | None = _UNKNOWN
        if kind is ARG_NAMED and name is not None:
            given = Fields() if name in skip else Fields({name: stored(api, value, type_of(api, value))})
        elif kind is ARG_POS or kind is ARG_STAR2:
            given = fields_of_data(api, value)
        fields = fields.followed_by(given or _UNKNOWN)
    return fields


def _is_dict_call(value: Expression) -> bool:
    return (
        isinstance(value, CallExpr) and isinstance(value.callee, RefExpr) and value.callee.fullname == "builtins.dict"
    )


def _fields_of_display(api: Api, display: DictExpr) -> Fields:
    fields = Fields()
    for key, value in display.items:
        given: Fields | None = None
        if isinstance(key, StrExpr):
            given = Fields({key.value: stored(api, value, type_of(api, value))})
        elif key is None:  # ** of something; any other key is computed
            given = fields_of_data(api, value)
        fields = fields.followed_by(given or _UNKNOWN)
    return fields


def _fields_of_mapping(api: Api, type_: Type, depth: int = 0) -> Fields | None:
    proper = get_proper_type(type_)
    if isinstance(proper, NoneType):
        return Fields()
    if isinstance(proper, TypedDictType):
        known = {name: _stored_type(api, get_proper_type(item), depth + 1) for name, item in proper.items.items()}
        return Fields(known, rest=Rest.NONE if proper.required_keys == set(known) else Rest.OPEN)
    return known_fields(proper)


def _fields_of_rows(api: Api, display: ListExpr | TupleExpr) -> Fields | None:
    rows: list[Fields] = []
    for item in display.items:
        fields = fields_of_data(api, item) if isinstance(item, DictExpr) else known_fields(type_of(api, item))
        if fields is None or fields.rest is not Rest.NONE:
            return None
        rows.append(fields)
    return stacked_fields(api, rows) if any(row.known for row in rows) else None


def stacked_fields(api: Api, rows: Sequence[Fields]) -> Fields:
    """Return the fields of rows, stacked: those of all, since what a row lacks is made up."""
    return columns_joined(api, rows, lambda types: stacked(api, types))


def columns_joined(api: Api, rows: Sequence[Fields], join: Callable[[list[Type]], Type]) -> Fields:
    """Return the fields of any of the rows, each with the types that it has in them joined to one."""
    columns: dict[str, list[Type]] = {}
    for row in rows:
        for name, type_ in row.known.items():
            columns.setdefault(name, []).append(type_)
    unsure = [name for name in columns if all(name not in row or name in row.maybe for row in rows)]
    known = {name: join(types) for name, types in columns.items()}
    return Fields(known, frozenset(unsure), met(api, rows).rest if rows else Rest.NONE)


def stacked(api: Api, types: list[Type]) -> Type:
    """Return the type of rows of these types, stacked: arrays gain a dimension."""
    proper = [get_proper_type(type_) for type_ in types]
    if all(is_tensor(one) for one in proper):
        return proper[0]
    if all(is_array(one) for one in proper):
        return unranked(api, proper)
    nested = [known_fields(one) for one in proper]
    known = [fields for fields in nested if fields is not None]
    if len(known) == len(nested):
        return batch_of(api, stacked_fields(api, known))
    return array(api) if all(isinstance(one, NoneType) or _is_text(one) for one in proper) else anything()


def _stored_type(api: Api, type_: ProperType, depth: int = 0) -> Type:
    if depth > _DEPTH or _nested(type_, _DEPTH) > _MOST_NESTED:  # a type may hold itself
        return anything()
    if isinstance(type_, UnionType):
        return UnionType.make_union([_stored_type(api, get_proper_type(item), depth + 1) for item in type_.items])
    if isinstance(type_, LiteralType):
        return _stored_type(api, type_.fallback, depth)
    if isinstance(type_, TypedDictType):
        return batch_of(api, _fields_of_mapping(api, type_, depth) or _UNKNOWN)
    if isinstance(type_, TupleType):
        return _of_elements(api, type_.items, depth)
    if not isinstance(type_, Instance):
        return type_
    if is_batch(type_):
        return type_
    if type_.type.fullname in _NUMBERS or type_.type.has_base("numpy.generic"):
        return number(api)
    if type_.type.fullname in _SEQUENCES and type_.args:
        return _of_elements(api, [type_.args[0]], depth)
    if type_.type.has_base("typing.Mapping") and not type_.type.has_base(BATCH):
        return plain_batch(api)
    if type_.last_known_value is not None:
        return type_.copy_modified(last_known_value=None)
    return type_


def _nested(type_: Type, depth: int) -> float:
    """Return the number of batches in a type; infinity where more than ``depth`` are in one another.

    ``batch = Batch(inner=batch)`` in a loop would have no end, and its types grow with each round.
    """
    batches = [one for one in alternatives(type_) if is_batch(one)]
    if batches and not depth:
        return math.inf
    inner = [item for one in batches for item in (known_fields(one) or Fields()).known.values()]
    return len(batches) + sum(_nested(item, depth - 1) for item in inner)


def _of_elements(api: Api, elements: list[Type], depth: int) -> Type:
    kept = [get_proper_type(_stored_type(api, get_proper_type(element), depth + 1)) for element in elements]
    return _of_kept(api, kept)


def _of_kept(api: Api, elements: list[ProperType]) -> Type:
    """Return what a list becomes whose elements a batch keeps as these: an array, a tensor, or a Batch of rows."""
    if elements and all(map(is_tensor, elements)):
        return elements[0]
    if elements and all(
        is_array(element) or isinstance(element, NoneType) or _is_text(element) for element in elements
    ):
        return array(api)
    if elements and all(isinstance(one, Instance) and one.type.has_base(BATCH) for one in elements):
        known = [known_fields(one) for one in elements]
        if all(map(is_batch, elements)) and None not in known:
            return stacked(api, list(elements))
        return plain_batch(api)
    return anything()


# ---- arrays and tensors ----------------------------------------------------------------------------------------------


def is_tensor(type_: ProperType) -> TypeGuard[Instance]:
    """Return whether it is ``torch.Tensor`` or a class derived from it."""
    return isinstance(type_, Instance) and type_.type.has_base(TENSOR)


def is_array(type_: ProperType) -> TypeGuard[Instance]:
    """Return whether it is ``numpy.ndarray`` itself; of classes derived from it less is known."""
    return isinstance(type_, Instance) and type_.type.fullname == "numpy.ndarray"


def _is_text(type_: ProperType) -> bool:
    return isinstance(type_, Instance) and type_.type.fullname == "builtins.str"


def array(api: Api, dtype: Type | None = None) -> Type:
    """Return ``ndarray`` of any rank, and of any dtype if none is given."""
    info, dtypes = class_named(api, "numpy.ndarray"), class_named(api, "numpy.dtype")
    if info is None or dtypes is None:
        return anything()
    shape = api.named_generic_type("builtins.tuple", [anything()])
    return Instance(info, [shape, dtype if dtype is not None else Instance(dtypes, [anything()])])


def number(api: Api) -> Type:
    """Return the type of a number, which a batch keeps as an array without dimensions."""
    dtypes = class_named(api, "numpy.dtype")
    whole = get_proper_type(array(api))
    if dtypes is None or not isinstance(whole, Instance):
        return anything()
    shape = TupleType([], api.named_generic_type("builtins.tuple", [anything()]))
    return whole.copy_modified(args=[shape, whole.args[1]])


def as_read(type_: Type) -> Type:
    """Return what a reader gets of a field: of a number Any, since numpy's types take no 0-d array for a number."""
    proper = get_proper_type(type_)
    shape = get_proper_type(proper.args[0]) if is_array(proper) else None
    return anything() if isinstance(shape, TupleType) and not shape.items else type_


def unranked(api: Api, arrays: list[ProperType]) -> Type:
    """Return an array of any rank, with the dtype if all have the same."""
    dtypes = [one.args[1] for one in arrays if isinstance(one, Instance) and len(one.args) == 2]
    same_dtype = dtypes and len(dtypes) == len(arrays) and all(same(dtypes[0], other) for other in dtypes[1:])
    return array(api, dtypes[0] if same_dtype else None)


def either(api: Api, types: list[Type]) -> Type:
    """Return the type of what is of one of some types: that one if they are the same, an array if all are arrays."""
    if all(same(types[0], other) for other in types[1:]):
        return types[0]
    proper = [get_proper_type(one) for one in types]
    return unranked(api, proper) if all(map(is_array, proper)) else anything()


def tensor(api: Api) -> Type:
    """Return ``torch.Tensor``, or Any where torch is not installed."""
    info = class_named(api, TENSOR)
    return Instance(info, []) if info is not None else anything()


def map_fields(api: Api, type_: Type, change: Callable[[ProperType], Type]) -> Type:
    """Return a batch with every leaf's type changed, those of nested batches too."""
    fields = known_fields(type_)
    return type_ if fields is None else batch_of(api, fields.mapped(lambda item: map_leaf(api, item, change)))


def map_leaf(api: Api, type_: Type, change: Callable[[ProperType], Type]) -> Type:
    """Return one leaf's type changed; of a union each item."""
    proper = get_proper_type(type_)
    if isinstance(proper, UnionType):
        return UnionType.make_union([map_leaf(api, item, change) for item in proper.items])
    return map_fields(api, proper, change) if is_batch(proper) else change(proper)
