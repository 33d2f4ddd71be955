"""Rollouts in parts of a limited number of tokens, and their results in the order of the rows again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._core.lengths import require_tree
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.indexing import take
from typedbatch.errors import LeafError, StructureError
from typedbatch.posttraining.masks import flags_of
from typedbatch.posttraining.token_fields import layout_of
from typedbatch.posttraining.trimming import trim
from typedbatch.protocols import BatchProtocol
from typedbatch.rows.balancing import bins

B = TypeVar("B", bound=BatchProtocol)


class MicroBatch(NamedTuple, Generic[B]):
    """A part of a batch, and what a loss over the whole batch is divided by.

    Attributes:
        batch: Some of the rows, without the columns that none of them uses.
        rows: Numbers of these rows in the whole batch.
        total_tokens: Number of tokens of the whole batch that ``loss_mask`` counts; ``total=`` of ``"token"``.
        total_rows: Number of rows of the whole batch; ``total=`` of ``"sequence"``.
    """

    batch: B
    rows: NDArray[np.intp]
    total_tokens: int
    total_rows: int


def micro_batches(
    batch: B, tokens: int, *, multiple: int = 1, per_token: Sequence[str] = (), per_row: Sequence[str] = ()
) -> Iterator[MicroBatch[B]]:
    """Cut rollouts into few parts of at most ``tokens`` tokens each, so that long rows do not decide about memory.

    ``aggregate(losses, part.batch.loss_mask, total=part.total_tokens)`` of all parts add up to the loss of the batch,
    whatever the parts: dividing each by its own tokens would give short parts more weight. The totals are those of
    ``batch``; ranks that have shares of a batch pass those of the whole batch to ``aggregate``.

    Args:
        batch: Rollouts in the layout ``split``, ``left`` or ``right``.
        tokens: Greatest number of tokens of a part, padding left aside.
        multiple: Divisor of the number of parts, for ranks that must all make the same number of steps.
        per_token: Names of fields of tokens besides those of ``PER_TOKEN``.
        per_row: Names of fields with a value for each sample whose shape is like that of fields of tokens.

    Raises:
        SizeError: A row has more than ``tokens`` tokens, or there are fewer rows than parts.
        MissingFieldError: The batch does not have the fields of any layout, or no ``loss_mask``.
        StructureError: The layout has no rows, as ``packed``, or see :func:`trim`.
    """
    tree: Any = require_tree(batch, "micro_batches()")
    sizes = _lengths(tree)
    counted = int(np.count_nonzero(flags_of(tree, "loss_mask")))
    for rows in bins(sizes, tokens, multiple=multiple):
        yield MicroBatch(trim(take(tree, rows), per_token=per_token, per_row=per_row), rows, counted, len(sizes))


def map_tokens(
    batch: B,
    tokens: int,
    function: Callable[[B], Tensor],
    *,
    per_token: Sequence[str] = (),
    per_row: Sequence[str] = (),
) -> Tensor:
    """Call a function with parts of rollouts, and return its results in the order of the rows.

    ``old_logp = map_tokens(batch, 8192, lambda part: token_logp(model, part, temperature=1.0))``.

    Args:
        batch: Rollouts in the layout ``split``, ``left`` or ``right``.
        tokens: Greatest number of tokens of a part, padding left aside.
        function: Function of a part, without the columns that none of its rows uses. It returns a tensor with a value
            for each token, ``(n, width, ...)``, or for each row, ``(n,)``.
        per_token: Names of fields of tokens besides those of ``PER_TOKEN``.
        per_row: Names of fields with a value for each sample whose shape is like that of fields of tokens.

    Returns:
        A tensor ``(N, width, ...)`` with zeros at the columns that were taken off, or ``(N,)``.

    Raises:
        LeafError: The function does not return a tensor.
        StructureError: A result has neither of the two shapes, or see :func:`micro_batches`.
        SizeError: A row has more than ``tokens`` tokens.
    """
    tree: Any = require_tree(batch, "map_tokens()")
    is_left = layout_of(tree) == "left"
    width = flags_of(tree, "response_mask").shape[1]
    sizes = _lengths(tree)
    out: Tensor | None = None
    for rows in bins(sizes, tokens):
        part: Any = trim(take(tree, rows), per_token=per_token, per_row=per_row)
        result = function(part)
        own = part.response_mask.shape[1]
        shape = _shape_of(result, len(rows), own)
        if out is None:
            whole = (len(sizes), width, *shape[2:]) if len(shape) > 1 else (len(sizes),)
            out = result.new_zeros(whole)
        number = torch_side().to_tensor(rows).to(out.device)
        if len(shape) > 1:
            columns = (width - own, 0) if is_left else (0, width - own)
            result = torch.nn.functional.pad(result, (*[0, 0] * (len(shape) - 2), *columns))
        out = out.index_copy(0, number, result)
    return out if out is not None else torch.zeros(0, width)


def _shape_of(result: Any, rows: int, width: int) -> tuple[int, ...]:
    if not isinstance(result, Tensor):
        raise LeafError(f"map_tokens() takes a function that returns a tensor, got {type(result).__name__}")
    shape = tuple(result.shape)
    if shape != (rows,) and shape[:2] != (rows, width):
        raise StructureError(f"the function must return {[rows]} or {[rows, width]}, got {list(shape)}")
    return shape


def _lengths(tree: Any) -> NDArray[np.intp]:
    """Return the number of tokens of each row."""
    layout = layout_of(tree)
    if layout in ("ragged", "packed"):
        raise StructureError(
            f"the layout {layout!r} is not cut by columns; micro-batches take 'split', 'left' or 'right'"
        )
    if layout != "split":
        return _tokens(tree, "attention_mask")
    return _tokens(tree, "prompt_mask") + _tokens(tree, "response_mask")


def _tokens(tree: Any, mask: str) -> NDArray[np.intp]:
    counts: NDArray[np.intp] = flags_of(tree, mask).sum(1)
    return counts
