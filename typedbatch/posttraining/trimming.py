"""Removal of columns that no row uses: ``trim``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._ops.copying import shallow
from typedbatch._ops.widths import PER_TOKEN
from typedbatch._tree.kinds import leading_shape
from typedbatch._tree.lengths import require_at_least, require_tree
from typedbatch.posttraining.masks import flags_of, require_unbroken
from typedbatch.posttraining.token_fields import layout_of, partition, shape_of_ids
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


def trim(batch: B, *, multiple_of: int = 1, per_token: Sequence[str] = (), per_row: Sequence[str] = ()) -> B:
    """Return rollouts without the columns that no row has a token in, as for a forward pass over some of the rows.

    Columns are taken off at the padded edge: prompts, and fields of their shape whose names begin with ``prompt_``,
    lose them on the left, responses on the right. Layouts without padding, ``ragged`` and ``packed``, are returned as
    they are. Under ``checked``, a result with other widths than the argument is ``Annotated[Rollouts, SeparateSizes]``.

    Args:
        batch: Rollouts in any of the layouts.
        multiple_of: Number that the widths are rounded up to a multiple of, if there are as many columns, so that a
            compiled model sees few widths.
        per_token: Names of fields of tokens besides those of ``PER_TOKEN``.
        per_row: Names of fields with a value for each sample whose shape is like that of fields of tokens.

    Returns:
        A new batch of the same class. Fields of tokens are views, and all others are shared.

    Raises:
        MissingFieldError: The batch does not have the fields of any layout.
        StructureError: A field does not have the shape that the layout requires, the mask of tokens has a gap, or a
            field that may be one of tokens is named neither in ``per_token`` nor in ``per_row``.
        SizeError: ``multiple_of`` is below 1.
    """
    multiple = require_at_least(1, multiple_of, "multiple_of")
    tree: Any = require_tree(batch, "trim()")
    names, others = frozenset((*PER_TOKEN, *per_token)) - frozenset(per_row), frozenset(per_row)
    out = shallow(tree)
    for fields, kept in _columns(tree, names, others, multiple):
        for name in fields:
            out.__dict__[name] = fields[name][:, kept]
    result: B = out
    return result


def _columns(
    tree: Any, names: frozenset[str], per_row: frozenset[str], multiple: int
) -> list[tuple[Mapping[str, Any], slice]]:
    """Return groups of fields with the same columns, and the columns to keep."""
    layout = layout_of(tree)
    if layout in ("ragged", "packed"):
        return []
    if layout == "split":
        prompts, responses = flags_of(tree, "prompt_mask"), flags_of(tree, "response_mask")
        require_unbroken(prompts, "prompt_mask")
        require_unbroken(responses, "response_mask", from_start=True)
        shape_of_ids(tree, "prompt_ids", prompts.shape)
        shape_of_ids(tree, "response_ids", responses.shape)
        inner, _ = partition(tree, names, per_row, responses.shape, ("prompt_ids", "prompt_mask", "response_ids"))
        of_prompts = {
            name: value
            for name, value in tree.__dict__.items()
            if name.startswith("prompt_") and leading_shape(value)[:2] == prompts.shape
        }
        of_responses = {**inner, "response_ids": tree.__dict__["response_ids"]}
        return [(of_prompts, _last(prompts, multiple)), (of_responses, _first(responses, multiple))]
    present, of_response = flags_of(tree, "attention_mask"), flags_of(tree, "response_mask")
    require_unbroken(present, "attention_mask")
    shape_of_ids(tree, "input_ids", present.shape)
    inner, _ = partition(tree, names, per_row, of_response.shape, ("input_ids", "attention_mask"))
    whole = {name: tree.__dict__[name] for name in ("input_ids", "attention_mask")}
    if layout == "right":
        return [({**whole, **inner}, _first(present, multiple))]
    used = of_response & present[:, present.shape[1] - of_response.shape[1] :]
    return [(whole, _last(present, multiple)), (inner, _last(used, multiple))]


def _first(present: NDArray[np.bool_], multiple: int) -> slice:
    return slice(_width(present, multiple))


def _last(present: NDArray[np.bool_], multiple: int) -> slice:
    return slice(present.shape[1] - _width(present[:, ::-1], multiple), None)


def _width(present: NDArray[np.bool_], multiple: int) -> int:
    """Return the number of columns up to the last in which a row has a token, rounded up."""
    used = np.flatnonzero(np.count_nonzero(present, axis=0))
    width = int(used[-1]) + 1 if len(used) else 0
    columns: int = present.shape[1]
    return min(-(-width // multiple) * multiple, columns)
