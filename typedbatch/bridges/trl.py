"""Conversion of the dicts that TRL's ``GRPOTrainer`` and ``DPOTrainer`` pass to their losses. TRL is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, overload

import numpy as np
import torch
from typing_extensions import TypeForm

from typedbatch._core.kinds import KINDS, MAPPING, RAGGED, TENSOR, describe, is_objects, is_placeholder
from typedbatch._core.lengths import equal_rows, require_bounded
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.construct import objects
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch, cat
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, StructureError, under
from typedbatch.naming import rename
from typedbatch.posttraining import Pairs, to_layout, trim
from typedbatch.posttraining.token_fields import as_bools

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
        text = "from_trl() creates it from completion_mask and tool_mask; give this field another name"
        raise FieldNameError(text, "loss_mask")
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
    Advantages become ``(N,)`` if they are equal at all tokens of each completion, and importance ratios ``(N, 1)`` if
    they are 0 elsewhere too. ``loss_mask`` becomes a ``tool_mask`` if it differs from the mask of the completion. Other
    tensors are shared, arrays become tensors on the same memory, and columns of objects become lists. Numbers in the
    meta become tensors without dimensions. The rest of the meta, ``None`` and reserved fields are left out. Tensors
    come first, then lists, then the numbers, because TRL takes the number of rows from the first value.

    Args:
        batch: Rollouts in the layout ``split``.

    Raises:
        LeafError: ``batch`` is not a Batch, or has a field that is neither a tensor nor an array.
        MissingFieldError: ``response_mask`` is missing.
        StructureError: the batch has another layout, fields have different lengths, a mask has values other than 0 and
            1, or ``loss_mask`` is True where the response has no token.
        FieldNameError: two fields would have the same name.
    """
    tree = require_bounded(batch, "to_trl()")
    given = {name: value for name, value in tree.__dict__.items() if value is not None and not is_placeholder(value)}
    if "response_ids" not in given and (KINDS[type(given.get("tokens"))] is RAGGED or "input_ids" in given):
        text = (
            "TRL takes prompts and responses padded by themselves; to_layout(batch, 'split', pad_token_id=...) makes "
        )
        raise StructureError(text + "them")
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
    for name in _PER_SAMPLE:
        if name in columns:
            columns[name] = _once_per_sample(columns[name], present, name)
    inputs: dict[str, Any] = dict(rename(rows, "trl").__dict__)
    for name, value in inputs.items():
        if is_objects(value):
            inputs[name] = value.tolist()
        elif KINDS[type(value)] is not TENSOR:
            hint = "; .padded() pads it" if KINDS[type(value)] is RAGGED else ""
            raise LeafError(f"TRL takes tensors and lists, got {describe(value)}{hint}", name)
    # TRL counts the rows of the first one.
    inputs = dict(sorted(inputs.items(), key=lambda item: isinstance(item[1], list)))
    for name, value in meta_of(tree).items():
        number = value.item() if isinstance(value, (np.generic, torch.Tensor)) and not value.shape else value
        if type(number) in (int, float):
            inputs.setdefault(name, torch.tensor(number, device=present.device))
    return inputs


def _repeat_per_token(values: Any, present: Any) -> Any:
    """Return a number per sample at each of its tokens and 0 elsewhere. Numbers per token are returned as they are."""
    if KINDS[type(values)] is not TENSOR:
        raise LeafError(f"must be a tensor, got {describe(values)}")
    rows = present.shape[0]
    if values.shape == present.shape:
        return values
    if tuple(values.shape) not in ((rows,), (rows, 1)):
        text = f"must be {[rows]}, or {list(present.shape)} like completion_mask, got {list(values.shape)}"
        raise StructureError(text)
    return torch.where(present, values.reshape(rows, 1), torch.zeros_like(values[:1]).reshape(-1, 1))


def _once_per_sample(values: Any, present: Any, name: str) -> Any:
    """Return the number of each sample if it is the same at all of its tokens; the inverse of _repeat_per_token."""
    if KINDS[type(values)] is not TENSOR or values.shape != present.shape or not present.shape[1]:
        return values
    first = values.gather(1, present.int().argmax(1, keepdim=True))
    elsewhere = values if name == "is_weights" else torch.zeros_like(values)  # TRL has 1 there if they are per token.
    if bool(((present & (values != first)) | (~present & (elsewhere != 0))).any()):
        return values
    once = torch.where(present.any(1, keepdim=True), first, torch.zeros_like(first))
    return once if name == "is_weights" else once[:, 0]  # TRL's loss "vespo" adds up the logarithms of each row.


@overload
def pairs_from_trl(inputs: Mapping[str, Any], *, pad_token_id: int) -> Pairs: ...
@overload
def pairs_from_trl(inputs: Mapping[str, Any], into: TypeForm[T], *, pad_token_id: int) -> T: ...
@overload  # for jedi, as above
def pairs_from_trl(inputs: Mapping[str, Any], into: type[T], *, pad_token_id: int) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def pairs_from_trl(inputs: Mapping[str, Any], into: Any = Pairs, *, pad_token_id: int) -> Any:
    """Convert the dict that ``DPOTrainer`` passes to its loss to pairs.

    The dict has the better halves of all pairs and then the worse ones, each with its prompt. Tokens are copied.

    Args:
        inputs: Tensors by the names of TRL (1.16).
        into: A record or protocol that the batch must match.
        pad_token_id: Id for padded positions.

    Raises:
        MissingFieldError: ``input_ids``, ``attention_mask`` or ``completion_mask`` is missing.
        StructureError: the number of rows is odd, the two halves have different prompts, as with TRL's truncation mode
            ``"keep_end"``, a completion has no token, or a mask is not one of a row padded on the right.
        SchemaError: the batch does not match ``into``.
    """
    masks = ("attention_mask", "completion_mask")
    if missing := [name for name in ("input_ids", *masks) if name not in inputs]:
        raise MissingFieldError("pairs_from_trl()", missing[0], inputs)
    ids = inputs["input_ids"]
    present, of_completion = (as_bools(inputs[name], name) for name in masks)
    if len(ids) % 2:
        raise StructureError(f"it has {len(ids)} rows, and pairs are two halves of one length", "input_ids")
    whole = Batch(input_ids=ids, attention_mask=present, response_mask=of_completion)
    rows = to_layout(whole, "split", pad_token_id=pad_token_id)
    half = len(ids) // 2
    chosen, rejected = rows[:half], rows[half:]
    differ = (chosen.prompt_ids != rejected.prompt_ids) | (chosen.prompt_mask != rejected.prompt_mask)
    if bool(differ.any()):
        row = int(differ.any(1).nonzero()[0])
        raise StructureError(f"the two halves of pair {row} have different prompts", "input_ids")
    if not bool(rows.response_mask.any(1).all()):
        row = int((~rows.response_mask.any(1)).nonzero()[0]) % half
        raise StructureError(f"a completion of pair {row} has no token; leave the pair out", "completion_mask")
    fields = {"prompt_ids": chosen.prompt_ids, "prompt_mask": chosen.prompt_mask}
    for name, part in (("chosen", trim(chosen)), ("rejected", trim(rejected))):
        fields |= {f"{name}_ids": part.response_ids, f"{name}_mask": part.response_mask}
        if (logps := inputs.get(f"ref_{name}_logps")) is not None:
            fields[f"ref_{name}_logp"] = logps
    return extend(Batch(fields), into)


def pairs_to_trl(batch: Any, *, pad_token_id: int) -> dict[str, Any]:
    """Convert pairs to the dict that ``DPOTrainer`` passes to its loss, as for a collator that returns ``Pairs``.

    Other fields are left out, because TRL passes all that is in the dict to the model. Tokens are copied.

    Args:
        batch: Pairs.
        pad_token_id: Id for padded positions.

    Raises:
        SchemaError: ``batch`` is not a ``Pairs``.
        StructureError: a mask has a gap.
    """
    pairs = extend(batch, Pairs)
    halves = [
        Batch(prompt_ids=pairs.prompt_ids, prompt_mask=pairs.prompt_mask, response_ids=ids, response_mask=mask)
        for ids, mask in ((pairs.chosen_ids, pairs.chosen_mask), (pairs.rejected_ids, pairs.rejected_mask))
    ]
    rows = to_layout(cat(halves, widths="pad", pad_token_id=pad_token_id), "right", pad_token_id=pad_token_id)
    inputs = {
        "input_ids": rows.input_ids,
        "attention_mask": rows.attention_mask.long(),
        "completion_mask": rows.response_mask.long(),
        "ref_chosen_logps": pairs.ref_chosen_logp,
        "ref_rejected_logps": pairs.ref_rejected_logp,
    }
    return {name: value for name, value in inputs.items() if value is not None}
