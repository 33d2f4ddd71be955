"""What TRL's ``GRPOTrainer`` passes from generation to the loss: a dict of tensors. TRL itself is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, overload

import torch
from typing_extensions import TypeForm

from typedbatch._ops.construct import objects
from typedbatch._tree.leaves import KINDS, MAPPING, TENSOR, describe, is_objects, is_reserved
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._tree.rows import equal_rows, require_bounded
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, StructureError, under
from typedbatch.naming import rename
from typedbatch.posttraining.masks import as_bools

T = TypeVar("T")
_PER_SAMPLE: Final = ("advantages", "is_weights")
"""Fields of tokens that TRL may have as one number for each sample."""


@overload
def from_trl(inputs: Mapping[str, Any], into: None = None) -> Batch: ...
@overload
def from_trl(inputs: Mapping[str, Any], into: TypeForm[T]) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def from_trl(inputs: Mapping[str, Any], into: type[T]) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def from_trl(inputs: Mapping[str, Any], into: Any = None) -> Any:
    """The dict that ``GRPOTrainer`` gives its loss, as a batch of the names of ``typedbatch.posttraining``.

    Tensors are shared, but for these: masks become bools; ``loss_mask`` is ``completion_mask * tool_mask``; advantages
    and importance ratios with one number for each sample become ``(N, R)``, that number at each token of the
    completion and 0 elsewhere. Lists become columns of objects, tensors without dimensions numbers in the meta. Where
    the trainer masks completions that were cut off, ``completion_mask`` is 0 there, and they have no tokens.

    Args:
        inputs: the tensors by TRL's names (1.16).
        into: a record or protocol that the batch is to match; None for a Batch that is not checked. TRL has no
            ``uid`` and no rewards there, so for ``Ready`` add them to the dict: ``{**inputs, "uid": ..., ...}``.

    Raises:
        LeafError: ``inputs`` is not a dict, or a mask not a tensor.
        MissingFieldError: there is no ``completion_mask``.
        StructureError: fields of different lengths, as images have, which have several rows for a sample; a mask that
            has other numbers than 0 and 1 in it; advantages of neither shape.
        FieldNameError: two fields would have one name, or there is a ``loss_mask``, which is made here.
        SchemaError: the batch is not what ``into`` declares.
    """
    if KINDS[type(inputs)] is not MAPPING:
        raise LeafError(f"from_trl() takes the dict of the inputs of GRPOTrainer's loss, got {describe(inputs)}")
    given = {name: value for name, value in inputs.items() if value is not None}
    meta = {name: value.item() for name, value in given.items() if KINDS[type(value)] is TENSOR and not value.ndim}
    fields = {name: objects(value) if isinstance(value, list) else value for name, value in given.items()}
    batch = rename(Batch({name: value for name, value in fields.items() if name not in meta}), "typedbatch", "trl")
    equal_rows(batch.__dict__)
    columns = batch.__dict__
    if "response_mask" not in columns:
        raise MissingFieldError("from_trl()", "completion_mask", given)
    if "loss_mask" in columns:
        raise FieldNameError("it is made of completion_mask and tool_mask; give it another name", "loss_mask")
    for name in ("prompt_mask", "response_mask", "tool_mask"):
        if name in columns:
            columns[name] = as_bools(columns[name], name)
    there = columns["response_mask"]
    for name in _PER_SAMPLE:
        if name in columns:
            with under(name):
                columns[name] = _spread(columns[name], there)
    columns["loss_mask"] = there & columns.pop("tool_mask", there)
    if meta:
        set_meta(batch, meta)
    return batch if into is None else extend(batch, into)


def to_trl(batch: Any) -> dict[str, Any]:
    """A batch of the names of ``typedbatch.posttraining`` as the dict that ``GRPOTrainer`` gives its loss.

    The inverse of :func:`from_trl`: masks become int64, advantages ``(N,)`` where they are equal at all tokens of each
    completion, ``loss_mask`` a ``tool_mask`` where it differs from the mask of the completion. Other tensors are
    shared, arrays become tensors on the same memory, columns of objects lists. Numbers in the meta become tensors
    without dimensions; what else is in it is left out, as are ``None`` and reserved fields.

    Args:
        batch: rollouts in the layout ``split``.

    Raises:
        LeafError: ``batch`` is not a Batch, or has a field that is neither tensor nor array.
        MissingFieldError: there is no ``response_mask``.
        StructureError: fields of different lengths, a mask with other numbers than 0 and 1, or a ``loss_mask`` that is
            true where there is no token.
        FieldNameError: two fields would have one name.
    """
    tree = require_bounded(batch, "to_trl()")
    given = {name: value for name, value in tree.__dict__.items() if value is not None and not is_reserved(value)}
    if "response_mask" not in given:
        raise MissingFieldError(type(tree).__name__, "response_mask", given)
    rows = Batch(given).to_torch(device=given["response_mask"].device)
    equal_rows(rows.__dict__)
    columns = rows.__dict__
    there = as_bools(columns["response_mask"], "response_mask")
    _replace_loss_mask(columns, there)
    if "advantages" in columns:
        columns["advantages"] = _gathered(columns["advantages"], there)
    inputs = {name: _entry(name, value) for name, value in rename(rows, "trl").__dict__.items()}
    for name, value in meta_of(tree).items():
        if type(value) in (int, float):
            inputs.setdefault(name, torch.tensor(value, device=there.device))
    return inputs


def _spread(values: Any, there: Any) -> Any:
    """One number for each sample, at each of its tokens and 0 elsewhere; numbers for each token as they are."""
    if KINDS[type(values)] is not TENSOR:
        raise LeafError(f"it is a tensor, got {describe(values)}")
    rows = there.shape[0]
    if values.shape == there.shape:
        return values
    if tuple(values.shape) not in ((rows,), (rows, 1)):
        raise StructureError(f"it is {[rows]} or {list(there.shape)}, as completion_mask, got {list(values.shape)}")
    return torch.where(there, values.reshape(rows, 1), torch.zeros_like(values[:1]).reshape(-1, 1))


def _gathered(advantages: Any, there: Any) -> Any:
    """The number that a sample has at all its tokens, ``(N,)``, 0 without tokens; as they are where they differ."""
    if KINDS[type(advantages)] is not TENSOR or advantages.shape != there.shape or not there.shape[1]:
        return advantages
    first = advantages.gather(1, there.int().argmax(1, keepdim=True))
    if bool((there & (advantages != first)).any()):
        return advantages
    return torch.where(there.any(1), first[:, 0], torch.zeros_like(first[:, 0]))


def _replace_loss_mask(columns: dict[str, Any], there: Any) -> None:
    """Masks as TRL has them, int64; ``tool_mask`` is 1 at padded places, as TRL pads it."""
    loss_mask = as_bools(columns.pop("loss_mask", there), "loss_mask")
    if bool((loss_mask & ~there).any()):
        raise StructureError("it is true where there is no token of the response", "loss_mask")
    if not torch.equal(loss_mask, there):
        columns["tool_mask"] = (loss_mask | ~there).long()
    columns["response_mask"] = there.long()
    if "prompt_mask" in columns:
        columns["prompt_mask"] = as_bools(columns["prompt_mask"], "prompt_mask").long()


def _entry(name: str, value: Any) -> Any:
    if is_objects(value):
        return value.tolist()
    if KINDS[type(value)] is not TENSOR:
        raise LeafError(f"TRL takes tensors and lists, not {describe(value)}", name)
    return value
