"""Conversion of rollouts between layouts: ``to_layout``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, Tree, describe, leading_shape, new_tree
from typedbatch._core.lengths import leaves, require_rows, require_tree
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.indexing import take
from typedbatch._ops.padding import NO_ROW, fill_absent, take_or_zeros
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, StructureError, did_you_mean, under
from typedbatch.posttraining.layouts import LeftPadded, PackedRollouts, RaggedRollouts, RightPadded, Tokens
from typedbatch.posttraining.records import Rollouts
from typedbatch.posttraining.token_fields import (
    Layout,
    Span,
    fields_of_span,
    flags_of,
    layout_of,
    masks_of,
    put_fields,
    require_within,
    shape_of_ids,
    span_of_name,
    spans_of,
)
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.records import fill_defaults
from typedbatch.sequences import Side, as_lengths, cu_seqlens, padded_rows, position_ids, whole_numbers
from typedbatch.sequences import mask as mask_of

Flat: TypeAlias = "NDArray[np.bool_]"
Named: TypeAlias = tuple[Collection[str], Collection[str]]
"""The arguments ``per_token`` and ``per_row``."""
Numbers: TypeAlias = Mapping[Span, NDArray[np.intp]]
"""Number of the value at each token, by the fields that have it; -1 for none."""
RecordFields: TypeAlias = tuple[type[Batch], dict[str, Any]]


class Rows(NamedTuple):
    """Rollouts end to end: the intermediate form between any two layouts."""

    tokens: Any
    """A Batch of all tokens, with ``input_ids`` and ``response_mask``."""
    lengths: NDArray[np.intp]
    """Number of tokens of each sample."""
    others: dict[str, Any]
    """Fields with a value for each sample."""
    spans: dict[str, Span]
    """Tokens that each field has values for: those of prompts, of responses, or both."""


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
    Values at prompts, which ``right``, ``ragged`` and ``packed`` may have, are lost in ``split`` and ``left``, unless
    the name of the field begins with ``prompt_``; ``left`` refuses those. Which field is one of tokens is said as for
    :func:`trim`. Fields of tokens are copied, and fields with a value for each sample are shared.

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
        text = f"to_layout() expects one of {expected}, got {layout!r}{did_you_mean(str(layout), _WRITERS)}"
        raise SettingError(text)
    if pad_token_id is None and layout not in ("ragged", "packed"):
        raise SettingError(f"the layout {layout!r} has padding; pass pad_token_id=, the id for padded positions")
    tree = require_tree(batch, "to_layout()")
    rows = _READERS[layout_of(tree)](tree, (per_token, per_row))
    with under("tokens"):
        require_rows(rows.tokens, int(rows.lengths.sum()))
    for name, leaf in leaves(rows.others):
        count = leading_shape(leaf)[:1]
        if count and count[0] != len(rows.lengths):
            samples = len(rows.lengths)
            raise StructureError(f"{describe(leaf)} has {count[0]} rows, but there are {samples} samples", name)
    cls, fields = _WRITERS[layout](rows, pad_token_id)
    put_fields(rows.others, fields)
    fill_defaults(cls, fields)
    out = new_tree(cls, fields)
    set_meta(out, dict(meta_of(tree)))
    return out


# ---- from each layout ---------------------------------------------------------------------------------------------


def _from_split(tree: Any, named: Named) -> Rows:
    masks = masks_of(tree, "split")
    spans = spans_of(tree, masks, *named)
    before, present = masks["prompt"], masks["response"]
    require_within(present, tree.__dict__, "response_mask")
    # The prompt and response of each sample come one after the other; fields of one are zero at the other.
    of_prompts = before.sum(1)
    sizes = of_prompts + present.sum(1)
    is_response = position_ids(sizes) >= np.repeat(of_prompts, sizes)
    at_prompts, at_responses = np.full((2, len(is_response)), NO_ROW)
    at_prompts[~is_response], at_responses[is_response] = np.flatnonzero(before), np.flatnonzero(present)
    left_out = ("prompt_mask", "input_ids", "attention_mask")  # the last two may be there, and repeat the rest
    fields = {name: value for name, value in tree.__dict__.items() if name not in left_out}
    fields["prompt_ids"], fields["response_ids"] = _of_one_dtype(fields["prompt_ids"], fields["response_ids"])
    numbers: Numbers = {"prompt": at_prompts, "response": at_responses, "whole": np.flatnonzero(masks["whole"])}
    rows = _rows(fields, sizes, spans, numbers)
    tokens = rows.tokens.__dict__
    prompts, ids = tokens.pop("prompt_ids"), tokens.pop("response_ids")
    at = _like(ids, np.flatnonzero(~is_response))
    ids[at] = prompts[at]
    tokens["input_ids"], spans["input_ids"] = ids, "whole"
    return rows


def _from_left(tree: Any, named: Named) -> Rows:
    masks = masks_of(tree, "left")
    spans = spans_of(tree, masks, *named)
    present, of_response = masks["whole"], masks["response"]
    before = present.shape[1] - of_response.shape[1]
    require_within(present[:, before:], tree.__dict__, "attention_mask")
    # tokens before the first of the response belong to the prompt and have no values
    kept = present[:, before:] & np.logical_or.accumulate(of_response, 1)
    is_kept = np.concatenate([np.zeros((len(present), before), bool), kept], 1)[present]
    at_responses = np.full(len(is_kept), NO_ROW)
    at_responses[is_kept] = np.flatnonzero(kept)
    fields = {name: value for name, value in tree.__dict__.items() if name != "attention_mask"}
    return _rows(fields, present.sum(1), spans, {"response": at_responses, "whole": np.flatnonzero(present)})


def _from_right(tree: Any, named: Named) -> Rows:
    masks = masks_of(tree, "right")
    spans = spans_of(tree, masks, *named)
    present = masks["whole"]
    require_within(present, tree.__dict__, "attention_mask")
    fields = {name: value for name, value in tree.__dict__.items() if name != "attention_mask"}
    return _by_name(_rows(fields, present.sum(1), spans, {"whole": np.flatnonzero(present)}))


def _from_ragged(tree: Any, _named: Named) -> Rows:
    ragged: Ragged[Any] = tree.__dict__["tokens"]
    values: Any = ragged.values
    inner = {name: value for name, value in values.__dict__.items() if value is not None}
    others = {name: value for name, value in tree.__dict__.items() if name != "tokens"}
    with under("tokens"):
        return _by_name(Rows(Batch(inner), as_lengths(ragged.lengths), others, {}))


def _from_packed(tree: Any, named: Named) -> Rows:
    tokens = shape_of_ids(tree, "input_ids")
    ends = whole_numbers(tree.__dict__["cu_seqlens"], "cu_seqlens")
    if not len(ends) or ends[0] or (ends[1:] < ends[:-1]).any() or tokens[:1] != (ends[-1],):
        expected = f"must begin with 0, never decrease and end with the number of tokens, {list(tokens[:1])}"
        raise StructureError(f"{expected}, got {ends.tolist()}", "cu_seqlens")
    per_token, per_row = named
    if tokens == (len(ends) - 1,):  # with as many tokens as samples, shapes do not tell them apart
        per_row = {*per_row, "uid", "rewards", "response_length", "truncated", "policy_step"} - {*per_token}
    fields = {name: value for name, value in tree.__dict__.items() if name not in ("cu_seqlens", "position_ids")}
    spans = spans_of(new_tree(type(tree), fields), {"whole": np.ones(tokens[:1], bool)}, per_token, per_row)
    inner = fields_of_span(fields, spans, "whole")
    return _by_name(Rows(Batch(inner), np.diff(ends), fields_of_span(fields, spans, "row"), {}))


def _rows(fields: dict[str, Any], lengths: NDArray[np.intp], spans: dict[str, Span], numbers: Numbers) -> Rows:
    """Return rollouts end to end from padded fields, with zeros where there is no value."""
    tokens = Batch()
    for span, taken in numbers.items():
        flat = {name: _flat(value) for name, value in fields_of_span(fields, spans, span).items()}
        put_fields(take_or_zeros(new_tree(Batch, flat), taken).__dict__, tokens.__dict__)
    return Rows(tokens, lengths, fields_of_span(fields, spans, "row"), spans)


def _by_name(rows: Rows) -> Rows:
    """Return rollouts in which names say whether fields have values for prompts, for which nothing else does."""
    return rows._replace(spans={path: span_of_name(path) for path, _ in leaves(rows.tokens.__dict__)})


def _of_one_dtype(prompts: Any, responses: Any) -> tuple[Any, Any]:
    """Return the ids of prompts and responses in the dtype that holds both."""
    if KINDS[type(prompts)] is not KINDS[type(responses)] or prompts.shape[2:] != responses.shape[2:]:
        text = f"ids of prompts and responses must be of one kind and shape, got {describe(prompts)} and "
        text += f"{describe(responses)}"
        raise StructureError(text, "prompt_ids")
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
    if isinstance(value, Tree):
        return new_tree(type(value), {name: _flat(inner) for name, inner in value.__dict__.items()})
    return take(Batch(field=value), np.ones(leading_shape(value)[:2], bool)).__dict__["field"]


# ---- to each layout -----------------------------------------------------------------------------------------------


def _to_split(rows: Rows, pad_token_id: Any) -> RecordFields:
    is_response, before = _split_responses(rows)
    at_prompts = _places(before, "left", ~is_response)
    at_responses = _places(rows.lengths - before, "right", is_response)
    whole = fields_of_span(rows.tokens.__dict__, rows.spans, "whole")
    ids = {"input_ids": whole.pop("input_ids")}
    prompts = _padded({**ids, **fields_of_span(rows.tokens.__dict__, rows.spans, "prompt")}, at_prompts, pad_token_id)
    response = {**ids, **fields_of_span(rows.tokens.__dict__, rows.spans, "response")}
    fields = _padded(response, at_responses, pad_token_id)
    made = {"prompt_ids": prompts.pop("input_ids"), "response_ids": fields.pop("input_ids")}
    made["prompt_mask"] = _like(made["prompt_ids"], mask_of(before, side="left"))
    put_fields(prompts, fields)
    put_fields(_padded(whole, np.concatenate([at_prompts, at_responses], 1), None), fields)
    return Rollouts, {**made, **fields}


def _to_left(rows: Rows, pad_token_id: Any) -> RecordFields:
    is_response, before = _split_responses(rows)
    if of_prompts := fields_of_span(rows.tokens.__dict__, rows.spans, "prompt"):
        raise StructureError("the layout 'left' has no values of prompts; leave the field out", next(iter(of_prompts)))
    whole = fields_of_span(rows.tokens.__dict__, rows.spans, "whole")
    fields = _padded(whole, _places(rows.lengths, "left"), pad_token_id)
    fields["attention_mask"] = _like(fields["input_ids"], mask_of(rows.lengths, side="left"))
    response = fields_of_span(rows.tokens.__dict__, rows.spans, "response")
    put_fields(_padded(response, _places(rows.lengths - before, "left", is_response), None), fields)
    return LeftPadded, fields


def _to_right(rows: Rows, pad_token_id: Any) -> RecordFields:
    _split_responses(rows)  # only for its check of the order of tokens
    fields = _padded(rows.tokens.__dict__, _places(rows.lengths, "right"), pad_token_id)
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
    """Return the mask of the responses' tokens and the number of tokens of each prompt."""
    flags = flags_of(Batch(response_mask=rows.tokens["response_mask"][None]), "response_mask")[0]
    ends = np.cumsum(rows.lengths)
    before_all = np.append(0, np.cumsum(~flags))
    before = before_all[ends] - before_all[ends - rows.lengths]
    in_order = position_ids(rows.lengths) >= np.repeat(before, rows.lengths)
    if (in_order != flags).any():
        row = int(np.searchsorted(ends, (in_order != flags).argmax(), side="right"))
        text = f"all tokens of the response must come after the prompt, but in row {row} a token outside the response "
        text += "comes after one of it; tokens of tools are True in response_mask and False in loss_mask"
        raise StructureError(text, "response_mask")
    return flags, before


def _places(lengths: NDArray[np.intp], side: Side, chosen: Flat | None = None) -> NDArray[np.intp]:
    """Return the number of the token, or of the chosen one, at each position of padded rows; -1 for none."""
    numbers = padded_rows(lengths, None, side)
    if chosen is None:
        return numbers
    return np.where(numbers == NO_ROW, NO_ROW, np.append(np.flatnonzero(chosen), 0)[numbers])


def _padded(tokens: dict[str, Any], numbers: NDArray[np.intp], pad_token_id: Any) -> dict[str, Any]:
    """Return the tokens with these numbers, with padding for -1."""
    padded = take_or_zeros(new_tree(Batch, tokens), numbers)
    if "input_ids" in tokens:
        fill_absent(padded, numbers == NO_ROW, {"input_ids": pad_token_id})
    return dict(padded.__dict__)


def _like(ids: Any, array: NDArray[Any]) -> Any:
    """Return the array, or a tensor of it on the device of the ids if these are one."""
    if isinstance(ids, np.ndarray):
        return array
    return torch_side().to_tensor(array).to(ids.device)


_READERS: Final[dict[Layout, Callable[[Any, Named], Rows]]] = {
    "split": _from_split, "left": _from_left, "right": _from_right, "ragged": _from_ragged, "packed": _from_packed,
}  # fmt: skip
_WRITERS: Final[dict[Layout, Callable[[Rows, Any], RecordFields]]] = {
    "split": _to_split, "left": _to_left, "right": _to_right, "ragged": _to_ragged, "packed": _to_packed,
}  # fmt: skip
