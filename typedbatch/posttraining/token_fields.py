"""Fields of rollouts: their layout, and which of them have a value for each token."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typedbatch._tree.kinds import ARRAY, RAGGED, TENSOR, describe, kind_of, leading_shape
from typedbatch.errors import MissingFieldError, StructureError
from typedbatch.posttraining.masks import flags_of

Layout: TypeAlias = Literal["split", "left", "right", "ragged", "packed"]


def layout_of(tree: Any) -> Layout:
    """Return the layout of a batch, recognized by its fields."""
    fields = tree.__dict__
    if kind_of(fields.get("tokens")) is RAGGED:
        return "ragged"
    if "cu_seqlens" in fields:
        return "packed"
    if "response_ids" in fields:
        return "split"
    if "input_ids" not in fields:
        raise MissingFieldError(type(tree).__name__, "response_ids", fields)
    present, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    if of_response.shape != present.shape:
        return "left"
    padded_before_token = (present[:, 1:] & ~present[:, :-1]).any()
    return "left" if padded_before_token else "right"


def shape_of_ids(tree: Any, name: str, wanted: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return the shape of a required field of ids, which must be that of their mask if it is given.

    Raises:
        MissingFieldError: the batch does not have it.
        StructureError: it is neither an array nor a tensor, or has a different shape.
    """
    if name not in tree.__dict__:
        raise MissingFieldError(type(tree).__name__, name, tree.__dict__)
    leaf = tree.__dict__[name]
    if kind_of(leaf) not in (ARRAY, TENSOR):
        raise StructureError(f"ids of tokens must be an array or a tensor, got {describe(leaf)}", name)
    shape = leading_shape(leaf)
    if wanted is not None and shape != wanted:
        raise StructureError(f"it must have the shape of its mask, {list(wanted)}, got {list(shape)}", name)
    return shape


def partition(
    tree: Any, names: frozenset[str], per_row: frozenset[str], shape: tuple[int, ...], known: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of tokens and the fields with a value for each sample, without those in ``known``."""
    inner: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        fits = leading_shape(value)[: len(shape)] == shape
        if name in known or (name in names and value is None):
            continue
        if name in names and not fits:
            raise StructureError(f"a field of tokens must be {list(shape)}, got {list(leading_shape(value))}", name)
        if name not in names and fits and name not in per_row:
            raise StructureError(
                f"may have a value for each token, as it is {list(leading_shape(value))}; name it in per_token=, or in "
                "per_row= if it has one for each sample",
                name,
            )
        (inner if name in names else others)[name] = value
    return inner, others
