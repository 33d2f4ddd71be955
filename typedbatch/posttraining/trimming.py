"""Removal of columns that no row uses: ``trim``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch._core.kinds import new_tree
from typedbatch._core.lengths import require_at_least, require_tree
from typedbatch._ops.copying import shallow
from typedbatch._ops.indexing import take_basic
from typedbatch.batch import Batch
from typedbatch.posttraining.token_fields import (
    Layout,
    Masks,
    Span,
    fields_of_span,
    layout_of,
    masks_of,
    put_fields,
    spans_of,
)
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


def trim(batch: B, *, multiple_of: int = 1, per_token: Sequence[str] = (), per_row: Sequence[str] = ()) -> B:
    """Return rollouts without the columns that no row has a token in, as for a forward pass over some of the rows.

    Columns are taken off at the padded edge: fields of prompts lose them on the left, those of responses on the right.
    Which field is one of tokens is said by the arguments, by the dimension that the record declares for it, as ``R`` in
    ``"N R"``, or by its name, and never by its shape alone. Layouts without padding, ``ragged`` and ``packed``, are
    returned as they are. Under ``checked``, a result with other widths than the argument is ``Annotated[Rollouts,
    SeparateSizes]``.

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
    out = shallow(tree)
    if (layout := layout_of(tree)) not in ("ragged", "packed"):
        masks = masks_of(tree, layout)
        spans = spans_of(tree, masks, per_token, per_row)
        for span, kept in _columns(layout, masks, multiple).items():
            if fields := fields_of_span(tree.__dict__, spans, span):
                put_fields(take_basic(new_tree(Batch, fields), (slice(None), kept)).__dict__, out.__dict__)
    result: B = out
    return result


def _columns(layout: Layout, masks: Masks, multiple: int) -> dict[Span, slice]:
    """Return the columns to keep, by the fields that have them."""
    whole = masks["whole"]
    if layout == "right":
        return {"whole": _first(whole, multiple)}
    if layout == "left":
        used = masks["response"] & whole[:, whole.shape[1] - masks["response"].shape[1] :]
        return {"response": _last(used, multiple), "whole": _last(whole, multiple)}
    before, after = _last(masks["prompt"], multiple), _first(masks["response"], multiple)
    return {"prompt": before, "response": after, "whole": slice(before.start, before.stop + after.stop)}


def _first(present: NDArray[np.bool_], multiple: int) -> slice:
    return slice(_width(present, multiple))


def _last(present: NDArray[np.bool_], multiple: int) -> slice:
    return slice(present.shape[1] - _width(present[:, ::-1], multiple), present.shape[1])


def _width(present: NDArray[np.bool_], multiple: int) -> int:
    """Return the number of columns up to the last in which a row has a token, rounded up."""
    used = np.flatnonzero(np.count_nonzero(present, axis=0))
    width = int(used[-1]) + 1 if len(used) else 0
    columns: int = present.shape[1]
    return min(-(-width // multiple) * multiple, columns)
