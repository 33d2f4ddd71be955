"""Conversion of verl's ``DataProto``. Needs verl, installed as its own documentation describes."""

from __future__ import annotations

from typing import Any, Final, TypeVar, overload

import torch
from typing_extensions import TypeForm
from verl.protocol import DataProto

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe, is_placeholder
from typedbatch._core.lengths import equal_rows, require_bounded
from typedbatch._core.meta import as_meta, meta_of, set_meta
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.bridges.tensordict import from_tensordict, to_tensordict
from typedbatch.errors import FieldNameError, LeafError, StructureError
from typedbatch.naming import rename
from typedbatch.posttraining.token_fields import as_bools

T = TypeVar("T")
_MASKS: Final = ("prompt_mask", "response_mask", "loss_mask")


@overload
def from_dataproto(data: DataProto, into: None = None) -> Batch: ...
@overload
def from_dataproto(data: DataProto, into: TypeForm[T]) -> T: ...
@overload  # for jedi, which does not support TypeForm; checkers never reach this one
def from_dataproto(data: DataProto, into: type[T]) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def from_dataproto(data: DataProto, into: Any = None) -> Any:
    """Convert a DataProto to a batch with the names of ``typedbatch.posttraining``. Data and meta are shared.

    verl's ``response_mask`` becomes ``loss_mask``. If there are ``prompts`` and ``responses``, ``attention_mask`` is
    split into ``prompt_mask`` and ``response_mask``. ``input_ids`` and ``position_ids``, which follow from the rest,
    are then left out; position ids that do more than count the tokens stay. Masks become bools. Without a reward
    for each sample, ``rewards`` is the sum of ``token_level_rewards``, as in verl's metrics. ``non_tensor_batch``
    becomes columns and ``meta_info`` the meta.

    Args:
        data: A DataProto with padded tensors. With jagged tensors nothing is split, and they stay as they are.
        into: A record or protocol that the batch must match, or None for a Batch without a check.

    Raises:
        LeafError: ``data`` is not a DataProto.
        StructureError: ``input_ids`` or ``attention_mask`` does not match prompts and responses side by side, or a mask
            has values other than 0 and 1.
        FieldNameError: two fields would have the same name.
        SchemaError: the batch does not match ``into``.
    """
    given: Any = data
    if not isinstance(given, DataProto):
        raise LeafError(f"from_dataproto() takes a verl DataProto, got {describe(given)}")
    tensors: dict[str, Any] = {} if given.batch is None else from_tensordict(given.batch).__dict__
    arrays = given.non_tensor_batch or {}
    if both := tensors.keys() & arrays.keys():
        raise FieldNameError("it is both in batch and in non_tensor_batch; rename one of them", min(both))
    batch = rename(Batch({**tensors, **arrays}), "typedbatch", "verl")
    columns = batch.__dict__
    _split_sequences(columns)
    if "loss_mask" in columns:
        columns["loss_mask"] = as_bools(columns["loss_mask"], "loss_mask")
    if "rewards" not in columns and "token_rewards" in columns:
        columns["rewards"] = columns["token_rewards"].sum(-1)
    if given.meta_info:
        set_meta(batch, as_meta(given.meta_info))
    return batch if into is None else extend(batch, into)


def to_dataproto(batch: Any) -> DataProto:
    """Convert a batch with the names of ``typedbatch.posttraining`` to a DataProto.

    This is the inverse of :func:`from_dataproto`. Tensors go into ``batch`` and arrays into ``non_tensor_batch``. Both
    are shared, so call ``to_torch()`` first if tokens are arrays. ``attention_mask``, which verl's workers read, is
    made from prompts and responses, and so are ``input_ids`` and ``position_ids`` if the batch does not have them.
    Masks become int64. ``None`` and reserved fields are left out.

    Args:
        batch: Rollouts in the layout ``split``, or any batch with rows.

    Raises:
        LeafError: ``batch`` is not a Batch, or has a value that a TensorDict cannot hold.
        StructureError: the fields have different lengths, or a mask has values other than 0 and 1.
        NoLengthError: a field is a scalar.
        FieldNameError: two fields would have the same name, or a name has a different meaning in verl.
    """
    tree = require_bounded(batch, "to_dataproto()")
    columns = {name: value for name, value in tree.__dict__.items() if value is not None and not is_placeholder(value)}
    equal_rows(columns)
    for name in _MASKS:
        if name in columns:
            columns[name] = as_bools(columns[name], name).long()
    masks, ids = ("prompt_mask", "response_mask"), ("prompt_ids", "response_ids")
    if all(KINDS[type(columns.get(name))] is TENSOR for name in (*masks, *ids)):  # verl has whole sequences, too
        present = torch.cat([columns.pop(name) for name in masks], 1)
        columns["attention_mask"] = present
        columns.setdefault("input_ids", torch.cat([columns[name] for name in ids], 1))
        columns.setdefault("position_ids", _positions(present))
    fields = rename(Batch(columns), "verl").__dict__
    arrays = {name: value for name, value in fields.items() if KINDS[type(value)] is ARRAY}
    tensors = {name: value for name, value in fields.items() if name not in arrays}
    return DataProto(to_tensordict(Batch(tensors)) if tensors else None, arrays, dict(meta_of(tree)))


def _split_sequences(columns: dict[str, Any]) -> None:
    """Split the mask of whole sequences into two, and remove the fields that only repeat prompts and responses."""
    names = ("prompt_ids", "response_ids", "attention_mask")
    if not all(KINDS[type(columns.get(name))] is TENSOR and not columns[name].is_nested for name in names):
        return
    ids = torch.cat([columns["prompt_ids"], columns["response_ids"]], 1)
    present = as_bools(columns["attention_mask"], "attention_mask")
    if present.shape != ids.shape:
        text = f"must be {list(ids.shape)}, like prompts and responses side by side, got {list(present.shape)}"
        raise StructureError(text, "attention_mask")
    for name in [name for name in ("input_ids", "position_ids") if name in columns]:
        given, expected = columns[name], ids if name == "input_ids" else _positions(present)
        if given.shape == expected.shape and bool(((given == expected) | ~present).all()):
            del columns[name]
        elif name == "input_ids":
            raise StructureError("must be prompts and responses side by side, got different tokens", name)
    del columns["attention_mask"]
    prompts = columns["prompt_ids"].shape[1]
    columns["prompt_mask"], columns["response_mask"] = present[:, :prompts], present[:, prompts:]


def _positions(present: Any) -> Any:
    """Return the position of each token as verl counts it: 0 in padding on the left, the last one's on the right."""
    return (present.long().cumsum(-1) - 1).clamp(min=0)
