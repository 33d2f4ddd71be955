"""Fields of rollouts: their layout, and the tokens that each has values for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.compiling import is_compiling
from typedbatch._core.kinds import ARRAY, KINDS, RAGGED, TENSOR, Tree, describe, kind_of, leading_shape, new_tree
from typedbatch._core.lengths import leaves
from typedbatch._core.meta import keep_meta
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.widths import MASK_OF, PER_TOKEN
from typedbatch.errors import LeafError, MissingFieldError, StructureError, under
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Dim, Sort
from typedbatch.schema.fields import Schema
from typedbatch.sequences import as_flags

Layout: TypeAlias = Literal["split", "left", "right", "ragged", "packed"]
Span: TypeAlias = Literal["prompt", "response", "chosen", "rejected", "whole", "row"]
"""Tokens that a field has values for: of prompts, of responses, of one side of pairs, of prompts and responses, or of
none, as a value for each sample."""
Masks: TypeAlias = Mapping[Span, NDArray[np.bool_]]
"""True where there is a token, for each span of a layout; ``"whole"`` is last, and stands for those that it lacks.

Pairs have no ``"whole"``.
"""

_SPANS: Final[dict[str, Span]] = {
    "prompt_ids": "prompt", "prompt_mask": "prompt", "input_ids": "whole", "attention_mask": "whole",
    "position_ids": "whole", "response_ids": "response", **dict.fromkeys(PER_TOKEN, "response"),
    "chosen_ids": "chosen", "chosen_mask": "chosen", "rejected_ids": "rejected", "rejected_mask": "rejected",
}  # fmt: skip
"""Fields whose names say which tokens they have values for."""


def is_pairs(tree: Any) -> bool:
    """Return whether a batch has two responses in each row."""
    return "chosen_ids" in tree.__dict__ and "response_ids" not in tree.__dict__


def layout_of(tree: Any) -> Layout:
    """Return the layout of a batch, recognized by its fields."""
    fields = tree.__dict__
    if is_pairs(tree):
        text = "a row of pairs has two responses; pass pairs.chosen, pairs.rejected, or pairs.both, all in 2 * N rows"
        raise StructureError(text)
    if kind_of(fields.get("tokens")) is RAGGED:
        return "ragged"
    if "cu_seqlens" in fields:
        return "packed"
    if "response_ids" in fields:
        return "split"
    if "input_ids" not in fields:
        raise MissingFieldError(type(tree).__name__, "response_ids", fields)
    present, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    is_left = of_response.shape != present.shape or (present[:, 1:] & ~present[:, :-1]).any()
    return "left" if is_left else "right"


def shape_of_ids(tree: Any, name: str, wanted: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return the shape of a required field of ids, which must be that of their mask if it is given."""
    leaf = tree[name]
    if kind_of(leaf) not in (ARRAY, TENSOR):
        raise StructureError(f"ids of tokens must be an array or a tensor, got {describe(leaf)}", name)
    shape = leading_shape(leaf)
    if wanted is not None and shape != wanted:
        raise StructureError(f"it must have the shape of its mask, {list(wanted)}, got {list(shape)}", name)
    return shape


def masks_of(tree: Any, layout: Layout) -> Masks:
    """Return the mask of the tokens of each span of a layout with padding."""
    if layout == "split":
        before, after = flags_of(tree, "prompt_mask"), flags_of(tree, "response_mask")
        require_unbroken(before, "prompt_mask")
        require_unbroken(after, "response_mask", from_start=True)
        shape_of_ids(tree, "prompt_ids", before.shape)
        shape_of_ids(tree, "response_ids", after.shape)
        require_samples(after, len(before), "response_mask")
        return {"prompt": before, "response": after, "whole": np.concatenate([before, after], 1)}
    present = flags_of(tree, "attention_mask")
    require_unbroken(present, "attention_mask")
    shape_of_ids(tree, "input_ids", present.shape)
    if layout == "right":
        return {"whole": present}
    of_response = flags_of(tree, "response_mask")
    require_samples(of_response, len(present), "response_mask")
    if of_response.shape[1] > present.shape[1]:
        text = f"it is {list(of_response.shape)}, wider than input_ids, {list(present.shape)}"
        raise StructureError(text, "response_mask")
    return {"response": of_response, "whole": present}


def masks_of_pairs(tree: Any) -> Masks:
    """Return the mask of the tokens of each span of pairs."""
    masks: dict[Span, NDArray[np.bool_]] = {}
    sides: tuple[Span, ...] = ("prompt", "chosen", "rejected")
    for span in sides:
        masks[span] = flags_of(tree, f"{span}_mask")
        require_unbroken(masks[span], f"{span}_mask", from_start=span != "prompt")
        shape_of_ids(tree, f"{span}_ids", masks[span].shape)
        require_samples(masks[span], len(masks["prompt"]), f"{span}_mask")
    return masks


def spans_of(tree: Any, masks: Masks, per_token: Collection[str], per_row: Collection[str]) -> dict[str, Span]:
    """Return the span of each leaf, by its dotted name.

    The caller decides, else the dimensions that the record declares, else the name. A shape alone never does.
    """
    schema, axis = schema_of(type(tree)), next(iter(masks.values())).ndim - 1
    dims = _dims_of_spans(schema, masks, axis)
    spans: dict[str, Span] = {}
    for path, leaf in leaves(tree.__dict__):
        shape, name = leading_shape(leaf), path.partition(".")[0]
        fits: list[Span] = [span for span, mask in masks.items() if shape[: mask.ndim] == mask.shape]
        outer = {path[:end] for end, letter in enumerate(f"{path}.") if letter == "."}
        if not outer.isdisjoint(per_row):
            span: Span | None = "row"
        elif not outer.isdisjoint(per_token):
            span = _of_prefix(name, masks) or ("whole" if "whole" in fits and "response" not in fits else "response")
            if "whole" not in masks and span not in masks:
                text = "a field of tokens of pairs has a name that begins with prompt_, chosen_ or rejected_, or is "
                raise StructureError(text + "declared with the dimension of one side", path)
        else:
            span = _declared(_dim_of(schema, path, axis), dims, fits) or _SPANS.get(name)
            if "whole" not in masks and span not in masks and span != "row":
                span = None
        if span is None and fits:
            raise StructureError(
                f"may have a value for each token, as it is {list(shape)}; name it in per_token=, or in per_row= if it "
                "has one for each sample",
                path,
            )
        if span is None or (leaf is None and path != name):
            span = "row"
        elif span != "row" and span not in masks:
            span = "whole"
        if leaf is not None and span not in ("row", *fits):
            which = " of prompts" if span == "prompt" else ""
            raise StructureError(f"a field of tokens{which} must be {list(masks[span].shape)}, got {list(shape)}", path)
        spans[path] = span
    return spans


def _of_prefix(name: str, masks: Masks) -> Span | None:
    """Return the span that the name of a field begins with, as ``prompt_`` or, in pairs, ``chosen_``."""
    return next((span for span in masks if span not in ("response", "whole") and name.startswith(f"{span}_")), None)


def span_of_name(path: str) -> Span:
    """Return the span of a field of tokens by its name, as where prompts and responses are in one sequence."""
    name = path.partition(".")[0]
    return "prompt" if name.startswith("prompt_") else _SPANS.get(name, "response")


def _dims_of_spans(schema: Schema, masks: Masks, axis: int) -> dict[str, Span]:
    """Return the names that a record gives to the dimensions of ids and their masks, with the span of each."""
    found: dict[str, set[Span]] = {}
    for name in {*MASK_OF, *MASK_OF.values()} & _SPANS.keys():
        dim = _dim_of(schema, name, axis)
        if dim is not None and dim.sort is Sort.NAMED:
            found.setdefault(dim.text, set()).add(_SPANS[name] if _SPANS[name] in masks else "whole")
    dims: dict[str, Span] = {text: spans.pop() for text, spans in found.items() if len(spans) == 1}
    for one, other in permutations(dims, 2):
        if {dims[one], dims[other]} == {"prompt", "response"}:
            dims = {**dims, f"{one}+{other}": "whole"}
    return dims


def _dim_of(schema: Schema, path: str, axis: int) -> Dim | None:
    """Return a dimension of a leaf, as declared; sizes of a batch that has its own get the name of the batch, too."""
    name, _, rest = path.partition(".")
    field = next((field for field in schema if field.name == name), None)
    if field is None or not rest or not field.nested:
        return None if field is None else field.dim(axis)
    dim = _dim_of(field.nested[0], rest, axis)
    has_own = any(option.own_sizes for option in field.options)
    return replace(dim, text=path) if has_own and dim is not None else dim


def _declared(dim: Dim | None, dims: Mapping[str, Span], fits: Collection[Span]) -> Span | None:
    """Return the span of a field with this dimension, or None if the declaration does not decide."""
    if dim is None:
        return None
    if dim.text in dims and (dims[dim.text] in fits or not dim.broadcasts):
        return dims[dim.text]
    return "row" if {*fits} <= {*dims.values()} else None


def fields_of_span(
    fields: Mapping[str, Any], spans: Mapping[str, Span], span: Span, prefix: str = ""
) -> dict[str, Any]:
    """Return the fields of one span, those of nested batches in batches of their class."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Tree) and value.__dict__:
            if inner := fields_of_span(value.__dict__, spans, span, f"{prefix}{name}."):
                found[name] = new_tree(type(value), inner)
                keep_meta(value, found[name])
        elif spans[prefix + name] == span and (value is not None or span == "row"):
            found[name] = value
    return found


def put_fields(fields: Mapping[str, Any], into: dict[str, Any]) -> None:
    """Set fields, those of nested batches in the batches that are there."""
    for name, value in fields.items():
        if isinstance(value, Tree) and isinstance(into.get(name), Tree):
            put_fields(value.__dict__, into[name].__dict__)
        else:
            into[name] = value


def as_bools(mask: Any, name: str) -> Any:
    """Return a mask, a tensor with values 0 and 1 alone, as a tensor of bools on the same device."""
    if KINDS[type(mask)] is not TENSOR:
        raise LeafError(f"a mask must be a tensor, got {describe(mask)}", name)
    flags = mask != 0
    if mask.dtype == flags.dtype:
        return mask
    if not is_compiling() and bool((flags != mask).any()):  # torch.compile cannot look at values
        raise StructureError("a mask may only have values 0 and 1; make it a tensor of bools by a comparison", name)
    return flags


def flags_of(tree: Any, name: str) -> NDArray[np.bool_]:
    """Return the mask in the field ``name`` of a batch, an array or tensor of any dtype, as a numpy array of bools.

    Raise a StructureError if it is something else, or has other values than 0 and 1.
    """
    mask = tree[name]
    if KINDS[type(mask)] not in (ARRAY, TENSOR):
        raise StructureError(f"a mask must be an array or a tensor, got {describe(mask)}", name)
    with under(name):
        return as_flags(mask)


def require_samples(mask: NDArray[np.bool_], samples: int, name: str) -> None:
    """Raise a StructureError unless the mask has a row for each sample."""
    if len(mask) != samples:
        raise StructureError(f"it has {len(mask)} rows, but there are {samples} samples", name)


def require_unbroken(present: NDArray[np.bool_], name: str, *, from_start: bool = False) -> None:
    """Raise a StructureError if the mask of existing tokens has a gap, as a loss mask may have."""
    edge = np.full((len(present), 1), from_start)
    flags = np.concatenate([edge, present], 1)
    begins = flags[:, 1:] & ~flags[:, :-1]
    broken = flags[:, 0] + begins.sum(1) > 1
    if broken.any():
        row = int(broken.argmax())
        last = int(np.flatnonzero(begins[row])[-1])
        contiguous = "contiguous and begin at position 0" if from_start else "contiguous"
        raise StructureError(
            f"the tokens of a row must be {contiguous}, but row {row} has no token at position {last - 1} and one at "
            f"{last}. A token that exists but does not count, such as one of a tool, is True in this mask and False in "
            "loss_mask",
            name,
        )


def require_within(present: NDArray[np.bool_], fields: Mapping[str, Any], name: str) -> None:
    """Raise a StructureError if the mask of the response or the loss is True where ``present`` is False."""
    for mask in ("response_mask", "loss_mask"):
        if KINDS[type(fields.get(mask))] in (ARRAY, TENSOR):
            lost = (np.asarray(leaf_to_numpy(fields[mask])) != 0) & ~present
            if lost.any():
                row, position = np.argwhere(lost)[0].tolist()
                raise StructureError(f"row {row} is True at position {position}, where {name} has no token", mask)
