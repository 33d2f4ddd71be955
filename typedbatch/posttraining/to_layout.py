"""Conversion of rollouts between layouts: ``to_layout``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.conversion import torch_side
from typedbatch._ops.indexing import take
from typedbatch._ops.padding import NO_ROW, fill_absent, take_or_zeros
from typedbatch._ops.widths import PER_TOKEN
from typedbatch._tree.kinds import ARRAY, KINDS, TENSOR, describe, leading_shape, new_tree
from typedbatch._tree.lengths import leaves, require_rows, require_tree
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch.batch import Batch
from typedbatch.errors import MissingFieldError, SettingError, StructureError, did_you_mean, under
from typedbatch.posttraining.layouts import (
    LeftPadded,
    PackedRollouts,
    RaggedRollouts,
    RightPadded,
    Tokens,
)
from typedbatch.posttraining.masks import flags_of, require_samples, require_unbroken, require_within
from typedbatch.posttraining.records import Rollouts
from typedbatch.posttraining.token_fields import Layout, layout_of, partition, shape_of_ids
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.records import fill_defaults
from typedbatch.sequences import Side, as_lengths, cu_seqlens, padded_rows, position_ids, whole_numbers
from typedbatch.sequences import mask as mask_of

Flat: TypeAlias = "NDArray[np.bool_]"


class Rows(NamedTuple):
    """Rollouts end to end: the intermediate form between any two layouts."""

    tokens: Any
    """A Batch of all tokens, with ``input_ids`` and ``response_mask``."""
    lengths: NDArray[np.intp]
    """Number of tokens of each sample."""
    others: dict[str, Any]
    """Fields with a value for each sample."""


@overload
def to_layout(
    batch: BatchProtocol, layout: Literal["split"], *, pad_token_id: int, per_token: Sequence[str] = ...,
    per_row: Sequence[str] = ...,
) -> Rollouts: ...  # fmt: skip
@overload
def to_layout(
    batch: BatchProtocol, layout: Literal["left"], *, pad_token_id: int, per_token: Sequence[str] = ...,
    per_row: Sequence[str] = ...,
) -> LeftPadded: ...  # fmt: skip
@overload
def to_layout(
    batch: BatchProtocol, layout: Literal["right"], *, pad_token_id: int, per_token: Sequence[str] = ...,
    per_row: Sequence[str] = ...,
) -> RightPadded: ...  # fmt: skip
@overload
def to_layout(
    batch: BatchProtocol, layout: Literal["ragged"], *, pad_token_id: int = ..., per_token: Sequence[str] = ...,
    per_row: Sequence[str] = ...,
) -> RaggedRollouts: ...  # fmt: skip
@overload
def to_layout(
    batch: BatchProtocol, layout: Literal["packed"], *, pad_token_id: int = ..., per_token: Sequence[str] = ...,
    per_row: Sequence[str] = ...,
) -> PackedRollouts: ...  # fmt: skip
def to_layout(
    batch: BatchProtocol,
    layout: Layout,
    *,
    pad_token_id: int | None = None,
    per_token: Sequence[str] = (),
    per_row: Sequence[str] = (),
) -> Any:
    """Convert rollouts to another layout. ``typedbatch.posttraining.layouts`` has the layouts' fields and shapes.

    The layout of ``batch`` is recognized by its fields. All tokens and all values at tokens of responses are kept.
    Values at prompts, which ``right``, ``ragged`` and ``packed`` may have, are lost in ``split`` and ``left``. Fields
    of tokens are copied, and fields with a value for each sample are shared.

    ``attention_mask``, or in ``split`` ``prompt_mask`` and ``response_mask``, is True where there is a token. The
    tokens of a row must be contiguous. Tokens that exist but do not count, such as the output of tools, are False in
    ``loss_mask``, which may have gaps.

    Args:
        batch: Rollouts in any of the layouts.
        layout: ``"split"``, ``"left"``, ``"right"``, ``"ragged"`` or ``"packed"``.
        pad_token_id: Id for padded positions. Not used by ``ragged`` and ``packed``, which have no padding.
        per_token: Names of fields of tokens besides those of ``PER_TOKEN``.
        per_row: Names of fields with a value for each sample whose shape is like that of fields of tokens.

    Returns:
        A new batch of the layout's record, with all other fields as well. It is not validated.

    Raises:
        SettingError: the layout does not exist, or ``pad_token_id`` is missing for a layout with padding.
        MissingFieldError: the batch does not have the fields of any layout.
        StructureError: a field does not have the shape that the layout requires, or has a different number of samples;
            the mask of tokens has a gap; a mask of the response or the loss is True where no token is;
            ``cu_seqlens`` does not match the tokens; a token of a prompt comes after one of the response; or a field
            that may be one of tokens is named neither in ``per_token`` nor in ``per_row``.
    """
    if layout not in _WRITERS:
        expected = ", ".join(map(repr, _WRITERS))
        raise SettingError(
            f"to_layout() expects one of {expected}, got {layout!r}{did_you_mean(str(layout), _WRITERS)}"
        )
    if pad_token_id is None and layout not in ("ragged", "packed"):
        raise SettingError(f"the layout {layout!r} has padding; pass pad_token_id=, the id for padded positions")
    tree = require_tree(batch, "to_layout()")
    names = frozenset((*PER_TOKEN, *per_token)) - frozenset(per_row)
    rows = _READERS[layout_of(tree)](tree, names, frozenset(per_row))
    with under("tokens"):
        require_rows(rows.tokens, int(rows.lengths.sum()))
    for name, leaf in leaves(rows.others):
        count = leading_shape(leaf)[:1]
        if count and count[0] != len(rows.lengths):
            samples = len(rows.lengths)
            raise StructureError(f"{describe(leaf)} has {count[0]} rows, but there are {samples} samples", name)
    cls, fields = _WRITERS[layout](rows, pad_token_id)
    fields = {**fields, **rows.others}
    fill_defaults(cls, fields)
    out = new_tree(cls, fields)
    set_meta(out, dict(meta_of(tree)))
    return out


# ---- from each layout ---------------------------------------------------------------------------------------------


def _from_split(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    before, present = flags_of(tree, "prompt_mask"), flags_of(tree, "response_mask")
    require_unbroken(before, "prompt_mask")
    require_unbroken(present, "response_mask", from_start=True)
    shape_of_ids(tree, "prompt_ids", before.shape)
    shape_of_ids(tree, "response_ids", present.shape)
    require_samples(present, len(before), "response_mask")
    inner, others = partition(tree, names, per_row, present.shape, ("prompt_ids", "prompt_mask", "response_ids"))
    require_within(present, inner, "response_mask")
    # The prompt and response of each sample come one after the other; fields of responses are zero at prompts.
    of_prompts = before.sum(1)
    sizes = of_prompts + present.sum(1)
    is_response = position_ids(sizes) >= np.repeat(of_prompts, sizes)
    of_response = np.full(len(is_response), NO_ROW)
    of_response[is_response] = np.flatnonzero(present)
    prompt_ids, response_ids = _of_one_dtype(tree.__dict__["prompt_ids"], tree.__dict__["response_ids"])
    tokens = _flat_rows({"input_ids": response_ids, **inner}, of_response)
    ids, of_prompt = tokens.__dict__["input_ids"], np.flatnonzero(~is_response)
    prompts = _flat_rows({"input_ids": prompt_ids}, np.flatnonzero(before))
    ids[of_prompt if isinstance(ids, np.ndarray) else _like(ids, of_prompt)] = prompts.__dict__["input_ids"]
    return Rows(tokens, sizes, others)


def _from_left(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    present, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    require_unbroken(present, "attention_mask")
    shape_of_ids(tree, "input_ids", present.shape)
    require_samples(of_response, len(present), "response_mask")
    before = present.shape[1] - of_response.shape[1]
    if before < 0:
        raise StructureError(
            f"it is {list(of_response.shape)}, wider than input_ids, {list(present.shape)}", "response_mask"
        )
    inner, others = partition(tree, names, per_row, of_response.shape, ("input_ids", "attention_mask"))
    require_within(present[:, before:], inner, "attention_mask")
    # tokens before the first of the response belong to the prompt and have no values
    kept = present[:, before:] & np.logical_or.accumulate(of_response, 1)
    is_kept = np.concatenate([np.zeros((len(present), before), bool), kept], 1)[present]
    numbers = np.full(len(is_kept), NO_ROW)
    numbers[is_kept] = np.flatnonzero(kept)
    tokens = _flat_rows({"input_ids": tree.__dict__["input_ids"]}, np.flatnonzero(present))
    tokens.__dict__.update(_flat_rows(inner, numbers).__dict__)
    return Rows(tokens, present.sum(1), others)


def _from_right(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    present = flags_of(tree, "attention_mask")
    require_unbroken(present, "attention_mask")
    shape_of_ids(tree, "input_ids", present.shape)
    inner, others = partition(tree, names, per_row, present.shape, ("input_ids", "attention_mask"))
    require_within(present, inner, "attention_mask")
    tokens = _flat_rows({"input_ids": tree.__dict__["input_ids"], **inner}, np.flatnonzero(present))
    return Rows(tokens, present.sum(1), others)


def _from_ragged(tree: Any, _names: frozenset[str], _per_row: frozenset[str]) -> Rows:
    ragged: Ragged[Any] = tree.__dict__["tokens"]
    values: Any = ragged.values
    inner = {name: value for name, value in values.__dict__.items() if value is not None}
    others = {name: value for name, value in tree.__dict__.items() if name != "tokens"}
    with under("tokens"):
        return Rows(Batch(inner), as_lengths(ragged.lengths), others)


def _from_packed(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    tokens = shape_of_ids(tree, "input_ids")
    ends = whole_numbers(tree.__dict__["cu_seqlens"], "cu_seqlens")
    if not len(ends) or ends[0] or (ends[1:] < ends[:-1]).any() or tokens[:1] != (ends[-1],):
        expected = f"must begin with 0, never decrease and end with the number of tokens, {list(tokens[:1])}"
        raise StructureError(f"{expected}, got {ends.tolist()}", "cu_seqlens")
    if tokens == (len(ends) - 1,):  # with as many tokens as samples, shapes do not tell them apart
        per_row = frozenset(tree.__dict__) - names
    inner, others = partition(tree, names, per_row, tokens, ("input_ids", "cu_seqlens", "position_ids"))
    return Rows(Batch({"input_ids": tree.__dict__["input_ids"], **inner}), np.diff(ends), others)


def _flat_rows(fields: dict[str, Any], numbers: NDArray[np.intp]) -> Any:
    """Return a batch of these values of padded fields, ``(N, T, ...)``, numbered row by row; zeros for -1."""
    return take_or_zeros(Batch({name: _flat(value) for name, value in fields.items()}), numbers)


def _of_one_dtype(prompts: Any, responses: Any) -> tuple[Any, Any]:
    """Return the ids of prompts and responses in the dtype that holds both.

    Raises:
        StructureError: One is an array and the other a tensor, or they differ in the dimensions of a token.
    """
    if KINDS[type(prompts)] is not KINDS[type(responses)] or prompts.shape[2:] != responses.shape[2:]:
        raise StructureError(
            f"ids of prompts and responses must be of one kind and shape, got {describe(prompts)} and "
            f"{describe(responses)}",
            "prompt_ids",
        )
    if prompts.dtype == responses.dtype:
        return prompts, responses
    if KINDS[type(prompts)] is ARRAY:
        dtype = np.result_type(prompts.dtype, responses.dtype)
        return prompts.astype(dtype), responses.astype(dtype)
    wide = torch_side().torch.promote_types(prompts.dtype, responses.dtype)
    return prompts.to(wide), responses.to(wide)


def _flat(value: Any) -> Any:
    if KINDS[type(value)] in (ARRAY, TENSOR):
        return value.reshape(value.shape[0] * value.shape[1], *value.shape[2:])
    return take(Batch(field=value), np.ones(leading_shape(value)[:2], bool)).__dict__["field"]


# ---- to each layout -----------------------------------------------------------------------------------------------

RecordFields: TypeAlias = tuple[type[Batch], dict[str, Any]]


def _to_split(rows: Rows, pad_token_id: Any) -> RecordFields:
    is_response, before = _split_responses(rows)
    prompts = Batch(input_ids=rows.tokens["input_ids"])
    prompt = _pad(prompts, before, "left", pad_token_id, ~is_response)
    response = _pad(rows.tokens, rows.lengths - before, "right", pad_token_id, is_response)
    ids = response.pop("input_ids")
    fields = {
        "prompt_ids": prompt["input_ids"],
        "prompt_mask": _like(ids, mask_of(before, side="left")),
        "response_ids": ids,
    }
    return Rollouts, {**fields, **response}


def _to_left(rows: Rows, pad_token_id: Any) -> RecordFields:
    is_response, before = _split_responses(rows)
    ids = _pad(Batch(input_ids=rows.tokens["input_ids"]), rows.lengths, "left", pad_token_id)
    present = _like(ids["input_ids"], mask_of(rows.lengths, side="left"))
    inner = Batch({name: value for name, value in rows.tokens.__dict__.items() if name != "input_ids"})
    response = _pad(inner, rows.lengths - before, "left", None, is_response)
    return LeftPadded, {**ids, "attention_mask": present, **response}


def _to_right(rows: Rows, pad_token_id: Any) -> RecordFields:
    _split_responses(rows)  # only for its check of the order of tokens
    fields = _pad(rows.tokens, rows.lengths, "right", pad_token_id)
    return RightPadded, {**fields, "attention_mask": _like(fields["input_ids"], mask_of(rows.lengths))}


def _to_ragged(rows: Rows, _pad_token_id: Any) -> RecordFields:
    fields = dict(rows.tokens.__dict__)
    fill_defaults(Tokens, fields)
    return RaggedRollouts, {"tokens": Ragged(new_tree(Tokens, fields), rows.lengths)}


def _to_packed(rows: Rows, _pad_token_id: Any) -> RecordFields:
    ids = rows.tokens["input_ids"]
    positions, ends = _like(ids, position_ids(rows.lengths)), _like(ids, cu_seqlens(rows.lengths))
    return PackedRollouts, {**rows.tokens.__dict__, "position_ids": positions, "cu_seqlens": ends}


def _split_responses(rows: Rows) -> tuple[Flat, NDArray[np.intp]]:
    """Return the mask of the responses' tokens and the number of tokens of each prompt.

    Raises:
        StructureError: a token of a prompt comes after one of a response.
    """
    if "response_mask" not in rows.tokens.__dict__:
        raise MissingFieldError(type(rows.tokens).__name__, "response_mask", rows.tokens.__dict__)
    flags = flags_of(Batch(response_mask=rows.tokens["response_mask"][None]), "response_mask")[0]
    ends = np.cumsum(rows.lengths)
    before_all = np.append(0, np.cumsum(~flags))
    before = before_all[ends] - before_all[ends - rows.lengths]
    in_order = position_ids(rows.lengths) >= np.repeat(before, rows.lengths)
    if (in_order != flags).any():
        row = int(np.searchsorted(ends, (in_order != flags).argmax(), side="right"))
        raise StructureError(
            f"all tokens of the response must come after the prompt, but in row {row} a token outside the response "
            "comes after one of it; tokens of tools are True in response_mask and False in loss_mask",
            "response_mask",
        )
    return flags, before


def _pad(
    tokens: Any, lengths: NDArray[np.intp], side: Side, pad_token_id: Any, chosen: Flat | None = None
) -> dict[str, Any]:
    """Return the tokens, or those that are chosen, as padded rows."""
    numbers = padded_rows(lengths, None, side)
    is_padding = numbers == NO_ROW
    if chosen is not None:
        numbers = np.where(is_padding, NO_ROW, np.append(np.flatnonzero(chosen), 0)[numbers])
    padded = take_or_zeros(tokens, numbers)
    if "input_ids" in tokens.__dict__:
        fill_absent(padded, is_padding, {"input_ids": pad_token_id})
    return dict(padded.__dict__)


def _like(ids: Any, array: NDArray[Any]) -> Any:
    """Return the array, or a tensor of it on the device of the ids if these are one."""
    if isinstance(ids, np.ndarray):
        return array
    return torch_side().to_tensor(array).to(ids.device)


_READERS: Final[dict[Layout, Callable[[Any, frozenset[str], frozenset[str]], Rows]]] = {
    "split": _from_split, "left": _from_left, "right": _from_right, "ragged": _from_ragged, "packed": _from_packed,
}  # fmt: skip
_WRITERS: Final[dict[Layout, Callable[[Rows, Any], RecordFields]]] = {
    "split": _to_split, "left": _to_left, "right": _to_right, "ragged": _to_ragged, "packed": _to_packed,
}  # fmt: skip
