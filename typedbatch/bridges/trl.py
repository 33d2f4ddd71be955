"""Conversion of the dict that TRL's ``GRPOTrainer`` passes from generation to the loss. TRL itself is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, overload

import torch
from typing_extensions import TypeForm

from typedbatch._ops.construct import objects
from typedbatch._tree.kinds import KINDS, MAPPING, TENSOR, describe, is_objects, is_placeholder
from typedbatch._tree.lengths import equal_rows, require_bounded
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, StructureError, under
from typedbatch.naming import rename
from typedbatch.posttraining.masks import as_bools

T = TypeVar("T")
_PER_SAMPLE: Final = ("advantages", "is_weights")
"""Names of fields of tokens for which TRL may have one number per sample."""


@overload
def from_trl(inputs: Mapping[str, Any], into: None = None) -> Batch: ...
@overload
def from_trl(inputs: Mapping[str, Any], into: TypeForm[T]) -> T: ...
@overload  # for jedi, which does not support TypeForm; checkers never reach this one
def from_trl(inputs: Mapping[str, Any], into: type[T]) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def from_trl(inputs: Mapping[str, Any], into: Any = None) -> Any:
    """Convert the dict that ``GRPOTrainer`` passes to its loss to a batch.

    The batch has the names of ``typedbatch.posttraining``. Tensors are shared, with these exceptions. Masks become
    bools. ``loss_mask`` is ``completion_mask * tool_mask``. Advantages and importance ratios with one number per sample
    become ``(N, R)``, with that number at each token of the completion and 0 elsewhere. Lists become columns of
    objects, and tensors without dimensions become numbers in the meta. If the trainer masks truncated completions,
    their ``completion_mask`` is 0 everywhere, so they have no tokens.

    Args:
        inputs: Tensors by the names of TRL (1.16).
        into: A record or protocol that the batch must match, or None for a Batch without a check. TRL's dict has
            neither ``uid`` nor rewards, so for ``Ready`` add them: ``{**inputs, "uid": ..., ...}``.

    Raises:
        LeafError: ``inputs`` is not a dict, or a mask is not a tensor.
        MissingFieldError: ``completion_mask`` is missing.
        StructureError: fields have different lengths, as images do, which have several rows per sample; a mask has
            values other than 0 and 1; or advantages have neither of the two shapes.
        FieldNameError: two fields would have the same name, or ``inputs`` has a ``loss_mask``, which this function
            creates.
        SchemaError: the batch does not match ``into``.
    """
    if KINDS[type(inputs)] is not MAPPING:
        raise LeafError(f"from_trl() takes the dict that GRPOTrainer passes to its loss, got {describe(inputs)}")
    given = {name: value for name, value in inputs.items() if value is not None}
    meta = {name: value.item() for name, value in given.items() if KINDS[type(value)] is TENSOR and not value.ndim}
    fields = {name: objects(value) if isinstance(value, list) else value for name, value in given.items()}
    batch = rename(Batch({name: value for name, value in fields.items() if name not in meta}), "typedbatch", "trl")
    equal_rows(batch.__dict__)
    columns = batch.__dict__
    if "response_mask" not in columns:
        raise MissingFieldError("from_trl()", "completion_mask", given)
    if "loss_mask" in columns:
        raise FieldNameError(
            "from_trl() creates it from completion_mask and tool_mask; give this field another name", "loss_mask"
        )
    for name in ("prompt_mask", "response_mask", "tool_mask"):
        if name in columns:
            columns[name] = as_bools(columns[name], name)
    present = columns["response_mask"]
    for name in _PER_SAMPLE:
        if name in columns:
            with under(name):
                columns[name] = _repeat_per_token(columns[name], present)
    columns["loss_mask"] = present & columns.pop("tool_mask", present)
    if meta:
        set_meta(batch, meta)
    return batch if into is None else extend(batch, into)


def to_trl(batch: Any) -> dict[str, Any]:
    """Convert a batch to the dict that ``GRPOTrainer`` passes to its loss.

    This is the inverse of :func:`from_trl`: the batch has the names of ``typedbatch.posttraining``. Masks become int64.
    Advantages become ``(N,)`` if they are equal at all tokens of each completion. ``loss_mask`` becomes a ``tool_mask``
    if it differs from the mask of the completion. Other tensors are shared, arrays become tensors on the same memory,
    and columns of objects become lists. Numbers in the meta become tensors without dimensions. The rest of the meta,
    ``None`` and reserved fields are left out.

    Args:
        batch: Rollouts in the layout ``split``.

    Raises:
        LeafError: ``batch`` is not a Batch, or has a field that is neither a tensor nor an array.
        MissingFieldError: ``response_mask`` is missing.
        StructureError: fields have different lengths, a mask has values other than 0 and 1, or ``loss_mask`` is True
            where the response has no token.
        FieldNameError: two fields would have the same name.
    """
    tree = require_bounded(batch, "to_trl()")
    given = {name: value for name, value in tree.__dict__.items() if value is not None and not is_placeholder(value)}
    if "response_mask" not in given:
        raise MissingFieldError(type(tree).__name__, "response_mask", given)
    rows = Batch(given).to_torch(device=given["response_mask"].device)
    equal_rows(rows.__dict__)
    columns = rows.__dict__
    present = as_bools(columns["response_mask"], "response_mask")
    loss_mask = as_bools(columns.pop("loss_mask", present), "loss_mask")
    if bool((loss_mask & ~present).any()):
        raise StructureError("is True where response_mask is False", "loss_mask")
    if not torch.equal(loss_mask, present):
        columns["tool_mask"] = (loss_mask | ~present).long()  # TRL pads it with 1
    columns["response_mask"] = present.long()
    if "prompt_mask" in columns:
        columns["prompt_mask"] = as_bools(columns["prompt_mask"], "prompt_mask").long()
    advantages: Any = columns.get("advantages")
    if KINDS[type(advantages)] is TENSOR and advantages.shape == present.shape and present.shape[1]:
        first = advantages.gather(1, present.int().argmax(1, keepdim=True))
        if not bool((present & (advantages != first)).any()):  # equal at all tokens of each sample, and 0 without any
            columns["advantages"] = torch.where(present.any(1), first[:, 0], torch.zeros_like(first[:, 0]))
    inputs: dict[str, Any] = dict(rename(rows, "trl").__dict__)
    for name, value in inputs.items():
        if is_objects(value):
            inputs[name] = value.tolist()
        elif KINDS[type(value)] is not TENSOR:
            raise LeafError(f"TRL takes tensors and lists, got {describe(value)}", name)
    for name, value in meta_of(tree).items():
        if type(value) in (int, float):
            inputs.setdefault(name, torch.tensor(value, device=present.device))
    return inputs


def _repeat_per_token(values: Any, present: Any) -> Any:
    """Return a number per sample at each of its tokens and 0 elsewhere. Numbers per token are returned as they are."""
    if KINDS[type(values)] is not TENSOR:
        raise LeafError(f"must be a tensor, got {describe(values)}")
    rows = present.shape[0]
    if values.shape == present.shape:
        return values
    if tuple(values.shape) not in ((rows,), (rows, 1)):
        raise StructureError(
            f"must be {[rows]}, or {list(present.shape)} like completion_mask, got {list(values.shape)}"
        )
    return torch.where(present, values.reshape(rows, 1), torch.zeros_like(values[:1]).reshape(-1, 1))
