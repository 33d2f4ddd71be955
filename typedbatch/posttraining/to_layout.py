"""``to_layout``: rollouts in another layout, each value at its token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.indexing import take
from typedbatch._ops.padding import NO_ROW, take_or_zeros
from typedbatch._tree.leaves import ARRAY, RAGGED, TENSOR, describe, kind_of, leading_shape, new_tree
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._tree.rows import leaves, require_rows, require_tree
from typedbatch.batch import Batch, cat
from typedbatch.errors import MissingFieldError, SettingError, StructureError, did_you_mean, under
from typedbatch.posttraining.layouts import (
    PER_TOKEN,
    LeftPadded,
    PackedRollouts,
    RaggedRollouts,
    RightPadded,
    Tokens,
)
from typedbatch.posttraining.masks import flags_of, require_samples, require_unbroken, require_within
from typedbatch.posttraining.records import Rollouts
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.records import fill_defaults
from typedbatch.sequences import Side, as_lengths, cu_seqlens, pad, position_ids, unpad, whole_numbers
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

    ``attention_mask`` says which tokens are there, in ``split`` ``prompt_mask`` and ``response_mask``: in each row they
    stand next to each other. Tokens that are there and do not count, as the answers of tools, are False in
    ``loss_mask``, which may have gaps.

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
        StructureError: a field is not of the shape that the layout says, or of other samples; a mask of what is there
            has a gap, or a token of a response or of the loss where it has none; ``cu_seqlens`` do not fit the tokens;
            a token of a prompt comes after one of the response; or a field that may be of tokens is named neither in
            ``per_token`` nor in ``per_row``.
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
    _require_rows(rows)
    cls, fields = _MAKERS[layout](rows, pad_token_id)
    fields = {**fields, **rows.others}
    fill_defaults(cls, fields)
    out = new_tree(cls, fields)
    set_meta(out, dict(meta_of(tree)))
    return out


def _layout_of(tree: Any) -> Layout:
    """By its fields."""
    fields = tree.__dict__
    if kind_of(fields.get("tokens")) is RAGGED:
        return "ragged"
    if "cu_seqlens" in fields:
        return "packed"
    if "response_ids" in fields:
        return "split"
    if "input_ids" not in fields:
        raise MissingFieldError(type(tree).__name__, "response_ids", fields)
    there, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    if of_response.shape != there.shape:
        return "left"
    return "left" if (there[:, 1:] & ~there[:, :-1]).any() else "right"  # padding before a token


# ---- from each layout ---------------------------------------------------------------------------------------------


def _from_split(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    before, there = flags_of(tree, "prompt_mask"), flags_of(tree, "response_mask")
    require_unbroken(before, "prompt_mask")
    require_unbroken(there, "response_mask", from_start=True)
    _require_shape(tree, "prompt_ids", before.shape)
    _require_shape(tree, "response_ids", there.shape)
    require_samples(there, len(before), "response_mask")
    inner, others = _told_apart(tree, names, per_row, there.shape, ("prompt_ids", "prompt_mask", "response_ids"))
    require_within(there, inner, "response_mask")
    prompts = unpad(Batch(input_ids=tree.__dict__["prompt_ids"]), before)
    responses = unpad(Batch({**inner, "input_ids": tree.__dict__["response_ids"]}), there)
    return _joined(prompts, before.sum(1), responses, there.sum(1), others)


def _from_left(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    there, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    require_unbroken(there, "attention_mask")
    _require_shape(tree, "input_ids", there.shape)
    require_samples(of_response, len(there), "response_mask")
    before = there.shape[1] - of_response.shape[1]
    if before < 0:
        raise StructureError(
            f"it is {list(of_response.shape)}, wider than input_ids, {list(there.shape)}", "response_mask"
        )
    inner, others = _told_apart(tree, names, per_row, of_response.shape, ("input_ids", "attention_mask"))
    require_within(there[:, before:], inner, "attention_mask")
    kept = there[:, before:] & np.logical_or.accumulate(of_response, 1)  # before it there are prompts
    is_kept = np.concatenate([np.zeros((len(there), before), bool), kept], 1)[there]
    tokens = unpad(Batch(input_ids=tree.__dict__["input_ids"]), there)
    number = np.where(is_kept, np.cumsum(is_kept) - 1, NO_ROW)
    tokens.__dict__.update(take_or_zeros(unpad(Batch(inner), kept), number).__dict__)
    return Rows(tokens, there.sum(1), others)


def _from_right(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    there = flags_of(tree, "attention_mask")
    require_unbroken(there, "attention_mask")
    _require_shape(tree, "input_ids", there.shape)
    inner, others = _told_apart(tree, names, per_row, there.shape, ("input_ids", "attention_mask"))
    require_within(there, inner, "attention_mask")
    tokens = unpad(Batch({"input_ids": tree.__dict__["input_ids"], **inner}), there)
    return Rows(tokens, there.sum(1), others)


def _from_ragged(tree: Any, _names: frozenset[str], _per_row: frozenset[str]) -> Rows:
    ragged: Ragged[Any] = tree.__dict__["tokens"]
    values: Any = ragged.values
    inner = {name: value for name, value in values.__dict__.items() if value is not None}
    others = {name: value for name, value in tree.__dict__.items() if name != "tokens"}
    with under("tokens"):
        return Rows(Batch(inner), as_lengths(ragged.lengths), others)


def _from_packed(tree: Any, names: frozenset[str], per_row: frozenset[str]) -> Rows:
    tokens = leading_shape(_leaf(tree, "input_ids"))
    ends = whole_numbers(tree.__dict__["cu_seqlens"], "cu_seqlens")
    if not len(ends) or ends[0] or (ends[1:] < ends[:-1]).any() or tokens[:1] != (ends[-1],):
        says = f"cu_seqlens begins with 0, never falls and ends with the number of tokens, {list(tokens[:1])}"
        raise StructureError(f"{says}, got {ends.tolist()}", "cu_seqlens")
    if tokens == (len(ends) - 1,):  # as many tokens as samples, so shapes say nothing
        per_row = frozenset(tree.__dict__) - names
    inner, others = _told_apart(tree, names, per_row, tokens, ("input_ids", "cu_seqlens", "position_ids"))
    return Rows(Batch({"input_ids": tree.__dict__["input_ids"], **inner}), np.diff(ends), others)


def _leaf(tree: Any, name: str) -> Any:
    """A field that must be there.

    Raises:
        MissingFieldError: it is not.
        StructureError: it is neither an array nor a tensor.
    """
    if name not in tree.__dict__:
        raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    leaf = tree.__dict__[name]
    if kind_of(leaf) not in (ARRAY, TENSOR):
        raise StructureError(f"ids of tokens are an array or a tensor, got {describe(leaf)}", name)
    return leaf


def _require_shape(tree: Any, name: str, shape: tuple[int, ...]) -> None:
    """Raise an error unless ids have the shape of their mask.

    Raises:
        MissingFieldError: there are no such ids.
        StructureError: they have another shape, or are no array or tensor.
    """
    if (found := leading_shape(_leaf(tree, name))) != shape:
        raise StructureError(f"it is {list(found)}, and the mask of its tokens {list(shape)}", name)


def _require_rows(rows: Rows) -> None:
    """Raise an error unless all fields are of the same samples: of others, tokens would be moved or made up.

    Raises:
        StructureError: a field has other rows.
    """
    with under("tokens"):
        require_rows(rows.tokens, int(rows.lengths.sum()))
    samples = len(rows.lengths)
    for name, leaf in leaves(rows.others):
        shape = leading_shape(leaf)
        if shape and shape[0] != samples:
            raise StructureError(f"{describe(leaf)} has {shape[0]} rows, and there are {samples} samples", name)


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
    flags = flags_of(Batch(response_mask=rows.tokens["response_mask"][None]), "response_mask")[0]
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
