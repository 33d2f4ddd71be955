"""What becomes of a value's type when a batch takes it in: the static side of ``typedbatch.construct``."""

from __future__ import annotations

from collections.abc import Callable
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

from typedbatch.mypy.fields import (
    BATCH,
    REST,
    Fields,
    alternatives,
    anything,
    batch_of,
    is_batch,
    known_fields,
    plain_batch,
)
from typedbatch.mypy.internals import Api, class_named, same, type_of

TENSOR = "torch._tensor.Tensor"
_NUMBERS = {"builtins.int", "builtins.float", "builtins.bool", "builtins.complex"}
_DEPTH = 4
_MOST_WAYS = 8
_SEQUENCES = {"builtins.list", "builtins.tuple"}


def stored(api: Api, value: Expression | None, type_: Type) -> Type:
    """The type of a field that was given this value: a list becomes an array, a dict a Batch, a number an array."""
    if value is not None and (isinstance(value, DictExpr) or _is_dict_call(value)):
        ways = fields_of_data(api, value)
        return batch_in_ways(api, ways) if ways is not None else plain_batch(api)
    if isinstance(value, (ListExpr, TupleExpr)) and value.items:
        rows = _fields_of_rows(api, value)
        if rows is not None:
            return batch_of(api, rows)
        if not any(isinstance(item, (StarExpr, DictExpr)) for item in value.items):  # mypy may have widened the list
            kept = [get_proper_type(stored(api, item, type_of(api, item))) for item in value.items]
            return _of_kept(api, kept)
    return _stored_type(api, get_proper_type(type_))


Ways = list[Fields]
"""The fields of a batch, once for each way by which the line is reached."""


def batch_in_ways(api: Api, ways: Ways) -> Type:
    """The type of a batch whose fields depend on how the line was reached."""
    return UnionType.make_union(list(dict.fromkeys(batch_of(api, fields) for fields in ways)))


def fields_of_data(api: Api, data: Expression) -> Ways | None:
    """The fields that ``Batch(data)`` has; None when they cannot be known."""
    if isinstance(data, DictExpr):
        return _fields_of_display(api, data)
    if isinstance(data, CallExpr) and _is_dict_call(data):
        return fields_of_arguments(api, data)
    if isinstance(data, (ListExpr, TupleExpr)):
        rows = _fields_of_rows(api, data)
        return None if rows is None else [rows]
    ways = [_fields_of_mapping(api, one) for one in alternatives(type_of(api, data))]
    known = [fields for fields in ways if fields is not None]
    return known if known and len(known) == len(ways) else None


def fields_of_arguments(api: Api, call: CallExpr, skip: tuple[str, ...] = ()) -> Ways | None:
    """The fields that the arguments of ``Batch(...)``, ``dict(...)`` or ``update(...)`` make; None when unknown."""
    ways: Ways = [{}]
    for value, kind, name in zip(call.args, call.arg_kinds, call.arg_names, strict=True):
        given: Ways | None = None
        if kind is ARG_NAMED and name is not None:
            given = [{} if name in skip else {name: stored(api, value, type_of(api, value))}]
        elif kind is ARG_POS or kind is ARG_STAR2:
            given = fields_of_data(api, value)
        if given is None:
            return None
        ways = _together(api, ways, given)
    return ways


def _together(api: Api, ways: Ways, more: Ways) -> Ways:
    """Each way of the one followed by each of the other; if those are too many, what all have and perhaps others."""
    both = [{**first, **second} for first in ways for second in more]
    if len(both) <= _MOST_WAYS:
        return both
    shared = set.intersection(*(set(fields) for fields in both))
    return [{name: either(api, [fields[name] for fields in both]) for name in shared} | {REST: anything()}]


def _is_dict_call(value: Expression) -> bool:
    return (
        isinstance(value, CallExpr) and isinstance(value.callee, RefExpr) and value.callee.fullname == "builtins.dict"
    )


def _fields_of_display(api: Api, display: DictExpr) -> Ways | None:
    ways: Ways = [{}]
    for key, value in display.items:
        if isinstance(key, StrExpr):
            given: Ways | None = [{key.value: stored(api, value, type_of(api, value))}]
        else:  # ** of something, or a computed key
            given = fields_of_data(api, value) if key is None else None
        if given is None:
            return None
        ways = _together(api, ways, given)
    return ways


def _fields_of_mapping(api: Api, type_: Type, depth: int = 0) -> Fields | None:
    proper = get_proper_type(type_)
    if isinstance(proper, NoneType):
        return {}
    if isinstance(proper, TypedDictType):
        fields = {name: _stored_type(api, get_proper_type(item), depth + 1) for name, item in proper.items.items()}
        return fields if proper.required_keys == set(proper.items) else {**fields, REST: anything()}
    return known_fields(proper)


def _fields_of_rows(api: Api, display: ListExpr | TupleExpr) -> Fields | None:
    columns: dict[str, list[Type]] = {}
    for item in display.items:
        ways = fields_of_data(api, item) if isinstance(item, DictExpr) else [known_fields(type_of(api, item))]
        if ways is None or len(ways) != 1 or ways[0] is None:
            return None
        for name, type_ in ways[0].items():
            columns.setdefault(name, []).append(type_)
    return {name: stacked(api, types) for name, types in columns.items()} if columns else None


def stacked(api: Api, types: list[Type]) -> Type:
    """The type of rows of these types, stacked: arrays gain a dimension."""
    proper = [get_proper_type(type_) for type_ in types]
    if all(is_tensor(one) for one in proper):
        return proper[0]
    if all(is_array(one) for one in proper):
        return unranked(api, proper)
    nested = [known_fields(one) for one in proper]
    known = [fields for fields in nested if fields is not None]
    if len(known) == len(nested):
        names = sorted({name for fields in known for name in fields})
        return batch_of(api, {n: stacked(api, [fields[n] for fields in known if n in fields]) for n in names})
    return array(api) if all(isinstance(one, NoneType) or _is_text(one) for one in proper) else anything()


def _stored_type(api: Api, type_: ProperType, depth: int = 0) -> Type:
    if depth > _DEPTH:  # a type may hold itself
        return anything()
    if isinstance(type_, UnionType):
        return UnionType.make_union([_stored_type(api, get_proper_type(item), depth + 1) for item in type_.items])
    if isinstance(type_, LiteralType):
        return _stored_type(api, type_.fallback, depth)
    if isinstance(type_, TypedDictType):
        fields = _fields_of_mapping(api, type_, depth)
        return batch_of(api, fields) if fields is not None else plain_batch(api)
    if isinstance(type_, TupleType):
        return _of_elements(api, type_.items, depth)
    if not isinstance(type_, Instance):
        return type_
    if is_batch(type_):
        return type_ if _is_flatter(type_, _DEPTH) else anything()
    if type_.type.fullname in _NUMBERS or type_.type.has_base("numpy.generic"):
        return array(api)
    if type_.type.fullname in _SEQUENCES and type_.args:
        return _of_elements(api, [type_.args[0]], depth)
    if type_.type.has_base("typing.Mapping") and not type_.type.has_base(BATCH):
        return plain_batch(api)
    if type_.last_known_value is not None:
        return type_.copy_modified(last_known_value=None)
    return type_


def _is_flatter(type_: Type, depth: int) -> bool:
    """Are fewer batches than ``depth`` nested in one another; ``batch = Batch(inner=batch)`` in a loop has no end."""
    items = [one for item in (known_fields(type_) or {}).values() for one in alternatives(item)]
    return depth > 0 and all(_is_flatter(item, depth - 1) for item in items)


def _of_elements(api: Api, elements: list[Type], depth: int) -> Type:
    kept = [get_proper_type(_stored_type(api, get_proper_type(element), depth + 1)) for element in elements]
    return _of_kept(api, kept)


def _of_kept(api: Api, elements: list[ProperType]) -> Type:
    """What a list becomes whose elements a batch keeps as these: an array, a tensor, or a Batch of rows."""
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
    """``torch.Tensor`` or a class derived from it."""
    return isinstance(type_, Instance) and type_.type.has_base(TENSOR)


def is_array(type_: ProperType) -> TypeGuard[Instance]:
    """``numpy.ndarray`` itself; of classes derived from it less is known."""
    return isinstance(type_, Instance) and type_.type.fullname == "numpy.ndarray"


def _is_text(type_: ProperType) -> bool:
    return isinstance(type_, Instance) and type_.type.fullname == "builtins.str"


def array(api: Api, dtype: Type | None = None) -> Type:
    """``ndarray`` of any rank; of any dtype too, when none is given."""
    info, dtypes = class_named(api, "numpy.ndarray"), class_named(api, "numpy.dtype")
    if info is None or dtypes is None:
        return anything()
    shape = api.named_generic_type("builtins.tuple", [anything()])
    return Instance(info, [shape, dtype if dtype is not None else Instance(dtypes, [anything()])])


def unranked(api: Api, arrays: list[ProperType]) -> Type:
    """An array of any rank, with the dtype if all have the same."""
    dtypes = [one.args[1] for one in arrays if isinstance(one, Instance) and len(one.args) == 2]
    same_dtype = dtypes and len(dtypes) == len(arrays) and all(same(dtypes[0], other) for other in dtypes[1:])
    return array(api, dtypes[0] if same_dtype else None)


def either(api: Api, types: list[Type]) -> Type:
    """What is of one of these types: that type if they are the same, an array if all are arrays."""
    if all(same(types[0], other) for other in types[1:]):
        return types[0]
    proper = [get_proper_type(one) for one in types]
    return unranked(api, proper) if all(map(is_array, proper)) else anything()


def tensor(api: Api) -> Type:
    """``torch.Tensor``, or Any where torch is not installed."""
    info = class_named(api, TENSOR)
    return Instance(info, []) if info is not None else anything()


def map_fields(api: Api, type_: Type, change: Callable[[ProperType], Type]) -> Type:
    """The batch with every leaf's type changed, those of nested batches too."""
    fields = known_fields(type_)
    if fields is None:
        return type_
    return batch_of(api, {name: map_leaf(api, item, change) for name, item in fields.items()})


def map_leaf(api: Api, type_: Type, change: Callable[[ProperType], Type]) -> Type:
    """One leaf's type changed; of a union each item."""
    proper = get_proper_type(type_)
    if isinstance(proper, UnionType):
        return UnionType.make_union([map_leaf(api, item, change) for item in proper.items])
    return map_fields(api, proper, change) if is_batch(proper) else change(proper)
