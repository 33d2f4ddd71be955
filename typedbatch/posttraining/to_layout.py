"""``to_layout``: rollouts in another layout, each value at its token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.indexing import take
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch._tree.leaves import KINDS, RAGGED, leading_shape, new_tree
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._tree.rows import require_tree
from typedbatch.batch import Batch, cat
from typedbatch.errors import MissingFieldError, SettingError, StructureError, did_you_mean
from typedbatch.posttraining.layouts import (
    PER_TOKEN,
    LeftPadded,
    PackedRollouts,
    RaggedRollouts,
    RightPadded,
    Tokens,
)
from typedbatch.posttraining.records import Rollouts
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.records import fill_defaults
from typedbatch.sequences import Side, as_flags, as_lengths, cu_seqlens, pad, position_ids, unpad
from typedbatch.sequences import mask as mask_of

Layout: TypeAlias = Literal["split", "left", "right", "ragged", "packed"]
Flat: TypeAlias = "NDArray[np.bool_]"


class Rows(NamedTuple):
    """Rollouts end to end, which every layout is made from and makes."""

    tokens: Any
    """A Batch of all tokens, with ``input_ids`` and ``response_mask``."""
    lengths: NDArray[np.intp]
    """How many of them each sample has."""
    others: dict[str, Any]
    """The fields with a value for each sample."""


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
    """The same rollouts in another layout; ``typedbatch.posttraining.layouts`` says to which token ``[t]`` belongs.

    Which layout the batch has is seen by its fields. All tokens are kept, and every value of a response's token; values
    at prompts, which ``right``, ``ragged`` and ``packed`` may have, are lost in ``split`` and ``left``. Data of tokens
    is copied, fields with a value for each sample are shared.

    Args:
        batch: rollouts in any of the layouts.
        layout: ``"split"``, ``"left"``, ``"right"``, ``"ragged"`` or ``"packed"``.
        pad_token_id: what padded places of ids get; for ``ragged`` and ``packed`` there are none.
        per_token: fields of tokens beside those of ``layouts.PER_TOKEN``.
        per_row: fields with a value for each sample that have the shape of fields of tokens.

    Returns:
        A new batch of the layout's record, which is not validated; it has all other fields, too.

    Raises:
        SettingError: no such layout, or no ``pad_token_id`` where there is something to pad.
        MissingFieldError: the fields of none of the layouts are there.
        StructureError: a field is not of the shape that the layout says, a token of a prompt comes after one of the
            response, or a field that may be of tokens is named neither in ``per_token`` nor in ``per_row``.
    """
    if layout not in _MAKERS:
        raise SettingError(
            f"to_layout() knows {', '.join(map(repr, _MAKERS))}, not {layout!r}{did_you_mean(str(layout), _MAKERS)}"
        )
    if pad_token_id is None and layout not in ("ragged", "packed"):
        raise SettingError(f"pad_token_id= is what padded places of ids get in the layout {layout!r}")
    tree = require_tree(batch, "to_layout()")
    names = frozenset((*PER_TOKEN, *per_token)) - frozenset(per_row)
    rows = _READERS[_layout_of(tree)](tree, names, frozenset(per_row))
    cls, fields = _MAKERS[layout](rows, pad_token_id)
    fields = {**fields, **rows.others}
    fill_defaults(cls, fields)
    out = new_tree(cls, fields)
    set_meta(out, dict(meta_of(tree)))
    return out


def _layout_of(tree: Any) -> Layout:
    """By its fields."""
    fields = tree.__dict__
    if KINDS[type(fields.get("tokens"))] is RAGGED:
        return "ragged"
    if "cu_seqlens" in fields:
        return "packed"
    if "response_ids" in fields:
        return "split"
    if "input_ids" not in fields:
        raise MissingFieldError(type(tree).__name__, "response_ids", fields)
    for name in ("attention_mask", "response_mask"):
        if name not in fields:
            raise MissingFieldError(type(tree).__name__, name, fields)
    if tuple(fields["response_mask"].shape) != tuple(fields["input_ids"].shape):
        return "left"
    flags = as_flags(fields["attention_mask"])
    return "left" if (flags[:, 1:] & ~flags[:, :-1]).any() else "right"  # padding before a token


# ---- from each layout ---------------------------------------------------------------------------------------------


def _from_split(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    fields = tree.__dict__
    if missing := [name for name in ("prompt_ids", "prompt_mask", "response_mask") if name not in fields]:
        raise MissingFieldError(type(tree).__name__, missing[0], fields)
    there = as_flags(fields["response_mask"])
    inner, others = _told_apart(tree, names, per_row, there.shape, ("prompt_ids", "prompt_mask", "response_ids"))
    prompt_there = as_flags(fields["prompt_mask"])
    prompts = unpad(Batch(input_ids=fields["prompt_ids"]), prompt_there)
    responses = unpad(Batch({**inner, "input_ids": fields["response_ids"]}), there)
    return _joined(prompts, prompt_there.sum(1), responses, there.sum(1), others)


def _from_left(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    fields = tree.__dict__
    there, of_response = as_flags(fields["attention_mask"]), as_flags(fields["response_mask"])
    inner, others = _told_apart(tree, names, per_row, of_response.shape, ("input_ids", "attention_mask"))
    ids = unpad(Batch(input_ids=fields["input_ids"]), there)
    sizes, response = there.sum(1), of_response.sum(1)
    if (response > sizes).any():
        row = int((response > sizes).argmax())
        raise StructureError(f"row {row} has {response[row]} tokens of a response, and {sizes[row]} in all")
    is_response = position_ids(sizes) >= np.repeat(sizes - response, sizes)
    responses = unpad(Batch(inner), of_response)
    responses["input_ids"] = take(ids, is_response)["input_ids"]
    return _joined(take(ids, ~is_response), sizes - response, responses, response, others)


def _from_right(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    there = as_flags(tree.__dict__["attention_mask"])
    inner, others = _told_apart(tree, names, per_row, there.shape, ("input_ids", "attention_mask"))
    tokens = unpad(Batch({"input_ids": tree.__dict__["input_ids"], **inner}), there)
    return Rows(tokens, there.sum(1), others)


def _from_ragged(tree: Any, _names: frozenset[str], _per_row: frozenset[str]) -> Rows:
    ragged: Ragged[Any] = tree.__dict__["tokens"]
    values: Any = ragged.values
    inner = {name: value for name, value in values.__dict__.items() if value is not None}
    others = {name: value for name, value in tree.__dict__.items() if name != "tokens"}
    return Rows(Batch(inner), as_lengths(ragged.lengths), others)


def _from_packed(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    ends = np.asarray(as_lengths(tree.__dict__["cu_seqlens"]))
    tokens = leading_shape(tree.__dict__["input_ids"])
    if tokens == (len(ends) - 1,):  # as many tokens as samples, so shapes say nothing
        per_row = frozenset(tree.__dict__) - names
    inner, others = _told_apart(tree, names, per_row, tokens, ("input_ids", "cu_seqlens", "position_ids"))
    return Rows(Batch({"input_ids": tree.__dict__["input_ids"], **inner}), np.diff(ends), others)


def _told_apart(
    tree: Any, names: frozenset[str], per_row: frozenset[str], shape: tuple[int, ...], known: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of tokens, and those with a value for each sample."""
    inner: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        fits = leading_shape(value)[: len(shape)] == shape
        if name in known or (name in names and value is None):
            continue
        if name in names and not fits:
            raise StructureError(f"a value for each token is {list(shape)}, got {list(leading_shape(value))}", name)
        if name not in names and fits and name not in per_row:
            raise StructureError(
                f"may have a value for each token, as it is {list(leading_shape(value))}; name it in per_token= or, "
                "if it has not, in per_row=",
                name,
            )
        (inner if name in names else others)[name] = value
    return inner, others


def _joined(prompts: Any, before: Any, responses: Any, after: Any, others: dict[str, Any]) -> Rows:
    """Prompt and response of each sample one after the other; the fields of responses are zeros at prompts."""
    sizes = before + after
    is_response = position_ids(sizes) >= np.repeat(before, sizes)
    ids = cat([Batch(input_ids=prompts["input_ids"]), Batch(input_ids=responses["input_ids"])])
    place = np.empty(len(is_response), np.intp)
    place[~is_response] = np.arange(before.sum())
    place[is_response] = before.sum() + np.arange(after.sum())
    tokens = take(ids, place)
    number = np.where(is_response, place - before.sum(), NO_ROW)
    rest = Batch({name: value for name, value in responses.__dict__.items() if name != "input_ids"})
    tokens.__dict__.update(take_or_zeros(rest, number).__dict__)
    return Rows(tokens, sizes, others)


# ---- to each layout -----------------------------------------------------------------------------------------------

Made: TypeAlias = tuple[type[Batch], dict[str, Any]]


def _to_split(rows: Rows, pad_token_id: Any) -> Made:
    is_response, before = _parts(rows)
    prompts = take(Batch(input_ids=rows.tokens["input_ids"]), ~is_response)
    prompt = _padded(prompts, before, "left", pad_token_id)
    response = _padded(take(rows.tokens, is_response), rows.lengths - before, "right", pad_token_id)
    ids = response.pop("input_ids")
    fields = {"prompt_ids": prompt["input_ids"], "prompt_mask": _mask(rows, before, "left"), "response_ids": ids}
    return Rollouts, {**fields, **response}


def _to_left(rows: Rows, pad_token_id: Any) -> Made:
    is_response, before = _parts(rows)
    ids = _padded(Batch(input_ids=rows.tokens["input_ids"]), rows.lengths, "left", pad_token_id)
    inner = Batch({name: value for name, value in rows.tokens.__dict__.items() if name != "input_ids"})
    response = _padded(take(inner, is_response), rows.lengths - before, "left", None)
    return LeftPadded, {**ids, "attention_mask": _mask(rows, rows.lengths, "left"), **response}


def _to_right(rows: Rows, pad_token_id: Any) -> Made:
    _parts(rows)
    fields = _padded(rows.tokens, rows.lengths, "right", pad_token_id)
    return RightPadded, {**fields, "attention_mask": _mask(rows, rows.lengths, "right")}


def _to_ragged(rows: Rows, _pad_token_id: Any) -> Made:
    fields = dict(rows.tokens.__dict__)
    fill_defaults(Tokens, fields)
    return RaggedRollouts, {"tokens": Ragged(new_tree(Tokens, fields), rows.lengths)}


def _to_packed(rows: Rows, _pad_token_id: Any) -> Made:
    ids = rows.tokens["input_ids"]
    places, ends = _beside(ids, position_ids(rows.lengths)), _beside(ids, cu_seqlens(rows.lengths))
    return PackedRollouts, {**rows.tokens.__dict__, "position_ids": places, "cu_seqlens": ends}


def _parts(rows: Rows) -> tuple[Flat, NDArray[np.intp]]:
    """Which tokens are of responses, and how many of each sample are not.

    Raises:
        StructureError: a token of a prompt comes after one of a response.
    """
    if "response_mask" not in rows.tokens.__dict__:
        raise MissingFieldError(type(rows.tokens).__name__, "response_mask", rows.tokens.__dict__)
    flags = as_flags(rows.tokens["response_mask"][None])[0]
    ends = np.cumsum(rows.lengths)
    before_all = np.append(0, np.cumsum(~flags))
    before = before_all[ends] - before_all[ends - rows.lengths]
    in_order = position_ids(rows.lengths) >= np.repeat(before, rows.lengths)
    if (in_order != flags).any():
        row = int(np.searchsorted(ends, (in_order != flags).argmax(), side="right"))
        raise StructureError(
            f"in row {row} a token that is not of the response comes after one that is; tokens of tools are of the "
            "response, and not in loss_mask",
            "response_mask",
        )
    return flags, before


def _padded(tokens: Any, lengths: Any, side: Side, pad_token_id: Any) -> dict[str, Any]:
    value = {"input_ids": pad_token_id} if "input_ids" in tokens.__dict__ else 0
    return dict(pad(tokens, lengths, side=side, value=value).__dict__)


def _mask(rows: Rows, lengths: Any, side: Side) -> Any:
    return _beside(rows.tokens["input_ids"], mask_of(lengths, side=side))


def _beside(ids: Any, array: NDArray[Any]) -> Any:
    """An array as what the ids are, on their device."""
    if isinstance(ids, np.ndarray):
        return array
    return Batch(array=array).to_torch(device=ids.device)["array"]


_READERS: Final[dict[Layout, Callable[[Any, frozenset[str], frozenset[str]], Rows]]] = {
    "split": _from_split, "left": _from_left, "right": _from_right, "ragged": _from_ragged, "packed": _from_packed,
}  # fmt: skip
_MAKERS: Final[dict[Layout, Callable[[Rows, Any], Made]]] = {
    "split": _to_split, "left": _to_left, "right": _to_right, "ragged": _to_ragged, "packed": _to_packed,
}  # fmt: skip
