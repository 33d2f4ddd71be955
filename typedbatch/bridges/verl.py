"""verl's ``DataProto``. Needs verl, which is installed as verl's own pages say."""

from __future__ import annotations

from typing import Any, Final, TypeVar, overload

import torch
from typing_extensions import TypeForm
from verl.protocol import DataProto

from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, describe, is_reserved
from typedbatch._tree.meta import as_meta, meta_of, set_meta
from typedbatch._tree.rows import equal_rows, require_bounded
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.bridges.tensordict import from_tensordict, to_tensordict
from typedbatch.errors import FieldNameError, LeafError, StructureError
from typedbatch.naming import rename
from typedbatch.posttraining.masks import as_bools

T = TypeVar("T")
_MASKS: Final = ("prompt_mask", "response_mask", "loss_mask")


@overload
def from_dataproto(data: DataProto, into: None = None) -> Batch: ...
@overload
def from_dataproto(data: DataProto, into: TypeForm[T]) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def from_dataproto(data: DataProto, into: type[T]) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def from_dataproto(data: DataProto, into: Any = None) -> Any:
    """A DataProto as a batch of the names of ``typedbatch.posttraining``; tensors, columns and meta are shared.

    verl's ``response_mask`` is ``loss_mask``. Where there are ``prompts`` and ``responses``, ``attention_mask`` is
    split into ``prompt_mask`` and ``response_mask``, and ``input_ids`` and ``position_ids``, which follow from the
    rest, are left out; position ids that do not just count the tokens stay. Masks become bools. Without a reward for
    each sample, ``rewards`` is the sum of ``token_level_rewards``, as in verl's metrics. ``non_tensor_batch`` are
    columns, ``meta_info`` is the meta.

    Args:
        data: with padded tensors; jagged ones stay as they are, and nothing is split.
        into: a record or protocol that the batch is to match; None for a Batch that is not checked.

    Raises:
        LeafError: ``data`` is not a DataProto.
        StructureError: tensors that are not prompts and responses side by side, or masks with other numbers than 0
            and 1.
        FieldNameError: two fields would have one name.
        SchemaError: the batch is not what ``into`` declares.
    """
    given: Any = data
    if not isinstance(given, DataProto):
        raise LeafError(f"from_dataproto() takes a DataProto of verl, got {describe(given)}")
    tensors: dict[str, Any] = {} if given.batch is None else from_tensordict(given.batch).__dict__
    arrays = given.non_tensor_batch or {}
    if both := tensors.keys() & arrays.keys():
        raise FieldNameError("it is in batch and in non_tensor_batch; rename one of them", min(both))
    batch = rename(Batch({**tensors, **arrays}), "typedbatch", "verl")
    columns = batch.__dict__
    _split(columns)
    if "loss_mask" in columns:
        columns["loss_mask"] = as_bools(columns["loss_mask"], "loss_mask")
    if "rewards" not in columns and "token_rewards" in columns:
        columns["rewards"] = columns["token_rewards"].sum(-1)
    if given.meta_info:
        set_meta(batch, as_meta(given.meta_info))
    return batch if into is None else extend(batch, into)


def to_dataproto(batch: Any) -> DataProto:
    """A batch of the names of ``typedbatch.posttraining`` as a DataProto: the inverse of :func:`from_dataproto`.

    Tensors go into ``batch``, arrays into ``non_tensor_batch``, both shared; so call ``to_torch()`` first on arrays of
    tokens. ``attention_mask``, ``input_ids`` and ``position_ids``, which verl's workers read, are made of prompts and
    responses; the latter two where they are not there. Masks become int64. ``None`` and reserved fields are left out.

    Args:
        batch: rollouts in the layout ``split``, or any batch with rows.

    Raises:
        LeafError: ``batch`` is not a Batch, or has what a TensorDict cannot hold.
        StructureError: fields of different lengths, or masks with other numbers than 0 and 1.
        NoLengthError: a field is a scalar.
        FieldNameError: two fields would have one name, or one a name that means something else in verl.
    """
    tree = require_bounded(batch, "to_dataproto()")
    columns = {name: value for name, value in tree.__dict__.items() if value is not None and not is_reserved(value)}
    equal_rows(columns)
    for name in _MASKS:
        if name in columns:
            columns[name] = as_bools(columns[name], name).long()
    _join(columns)
    fields = rename(Batch(columns), "verl").__dict__
    arrays = {name: value for name, value in fields.items() if KINDS[type(value)] is ARRAY}
    tensors = {name: value for name, value in fields.items() if name not in arrays}
    return DataProto(to_tensordict(Batch(tensors)) if tensors else None, arrays, dict(meta_of(tree)))


def _split(columns: dict[str, Any]) -> None:
    """Two masks in place of one of the whole sequences, and no field that says the same again."""
    names = ("prompt_ids", "response_ids", "attention_mask")
    if not all(KINDS[type(columns.get(name))] is TENSOR and not columns[name].is_nested for name in names):
        return
    ids = torch.cat([columns["prompt_ids"], columns["response_ids"]], 1)
    there = as_bools(columns["attention_mask"], "attention_mask")
    if there.shape != ids.shape:
        raise StructureError(
            f"it is {list(there.shape)}, and prompts and responses side by side are {list(ids.shape)}", "attention_mask"
        )
    if "input_ids" in columns and not _same_tokens(columns["input_ids"], ids, there):
        raise StructureError("these are not prompts and responses side by side", "input_ids")
    columns.pop("input_ids", None)
    if "position_ids" in columns and _same_tokens(columns["position_ids"], _positions(there), there):
        del columns["position_ids"]
    del columns["attention_mask"]
    prompts = columns["prompt_ids"].shape[1]
    columns["prompt_mask"], columns["response_mask"] = there[:, :prompts], there[:, prompts:]


def _join(columns: dict[str, Any]) -> None:
    """The fields of whole sequences that verl has, where there are prompts and responses with a mask each."""
    names = ("prompt_ids", "prompt_mask", "response_ids", "response_mask")
    if not all(KINDS[type(columns.get(name))] is TENSOR for name in names):
        return
    there = torch.cat([columns.pop("prompt_mask"), columns.pop("response_mask")], 1)
    columns["attention_mask"] = there
    columns.setdefault("input_ids", torch.cat([columns["prompt_ids"], columns["response_ids"]], 1))
    columns.setdefault("position_ids", _positions(there))


def _positions(there: Any) -> Any:
    """The place of each token in its sequence, as verl counts: 0 in front, the last one's behind."""
    return (there.long().cumsum(-1) - 1).clamp(min=0)


def _same_tokens(one: Any, other: Any, there: Any) -> bool:
    return one.shape == other.shape and bool(((one == other) | ~there).all())
