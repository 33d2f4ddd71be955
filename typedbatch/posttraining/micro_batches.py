"""Parts of rollouts, without the columns that none of their rows uses: micro-batches, and pairs of responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._core.kinds import new_tree
from typedbatch._core.lengths import require_at_least, require_tree
from typedbatch._core.meta import keep_meta
from typedbatch._ops.conversion import torch_side
from typedbatch._ops.copying import shallow
from typedbatch._ops.indexing import take, take_basic
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, StructureError
from typedbatch.posttraining import token_fields
from typedbatch.posttraining.records import Pairs, Rollouts
from typedbatch.posttraining.token_fields import flags_of
from typedbatch.protocols import BatchProtocol
from typedbatch.rows.balancing import bins
from typedbatch.sequences import Lengths, whole_numbers

B = TypeVar("B", bound=BatchProtocol)


def trim(batch: B, *, multiple_of: int = 1, per_token: Sequence[str] = (), per_row: Sequence[str] = ()) -> B:
    """Return rollouts or pairs without the columns that no row has a token in, as for a forward pass over some rows.

    Columns are taken off at the padded edge: fields of prompts lose them on the left, those of responses on the right,
    and those of the two sides of ``Pairs`` each its own. Which field is one of tokens is said by the arguments, by the
    dimension that the record declares for it, as ``R`` in ``"N R"``, or by its name, and never by its shape alone.
    Layouts without padding, ``ragged`` and ``packed``, are returned as they are. Under ``checked``, a result with other
    widths than the argument is ``Annotated[Rollouts, SeparateSizes]``.

    Args:
        batch: Rollouts in any of the layouts, or ``Pairs``.
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
    layout = None if token_fields.is_pairs(tree) else token_fields.layout_of(tree)
    if layout not in ("ragged", "packed"):
        masks = token_fields.masks_of(tree, layout) if layout else token_fields.masks_of_pairs(tree)
        spans = token_fields.spans_of(tree, masks, per_token, per_row)
        for span, kept in _columns(layout, masks, multiple).items():
            if fields := token_fields.fields_of_span(tree.__dict__, spans, span):
                token_fields.put_fields(take_basic(new_tree(Batch, fields), (slice(None), kept)).__dict__, out.__dict__)
    result: B = out
    return result


def _columns(
    layout: token_fields.Layout | None, masks: token_fields.Masks, multiple: int
) -> dict[token_fields.Span, slice]:
    """Return the columns to keep, by the fields that have them; the layout is None for pairs."""
    if layout is None:
        return {span: (_last if span == "prompt" else _first)(mask, multiple) for span, mask in masks.items()}
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


class MicroBatch(NamedTuple, Generic[B]):
    """A part of a batch, and what a loss over the whole batch is divided by.

    Attributes:
        batch: Some of the rows, without the columns that none of them uses.
        rows: Numbers of these rows in the whole batch.
        total_tokens: Number of tokens of the whole batch that ``loss_mask`` counts, of ``Pairs`` that of the better
            responses; ``total=`` of ``"token"``.
        total_rows: Number of rows of the whole batch; ``total=`` of ``"sequence"``, and the divisor of losses of pairs.
    """

    batch: B
    rows: NDArray[np.intp]
    total_tokens: int
    total_rows: int


def micro_batches(
    batch: B, tokens: int, *, multiple: int = 1, per_token: Sequence[str] = (), per_row: Sequence[str] = ()
) -> Iterator[MicroBatch[B]]:
    """Cut rollouts or pairs into few parts of at most ``tokens`` tokens, so that long rows do not decide about memory.

    ``aggregate(losses, part.batch.loss_mask, total=part.total_tokens)`` of all parts add up to the loss of the batch,
    whatever the parts: dividing each by its own tokens would give short parts more weight. The totals are those of
    ``batch``; ranks that have shares of a batch pass those of the whole batch to ``aggregate``.

    Args:
        batch: Rollouts in the layout ``split``, ``left`` or ``right``, or ``Pairs``.
        tokens: Greatest number of tokens of a part, padding left aside. The prompt of a pair counts twice, as both
            sides of it enter the model.
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
    counted = int(np.count_nonzero(flags_of(tree, "chosen_mask" if token_fields.is_pairs(tree) else "loss_mask")))
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
    """Call a function with parts of rollouts or pairs, and return its results in the order of the rows.

    ``old_logp = map_tokens(batch, 8192, lambda part: token_logp(model, part, temperature=1.0))``.

    Args:
        batch: Rollouts in the layout ``split``, ``left`` or ``right``, or ``Pairs``.
        tokens: Greatest number of tokens of a part, padding left aside.
        function: Function of a part, without the columns that none of its rows uses. It returns a tensor with a value
            for each token, ``(n, width, ...)``, or for each row, ``(n,)``. Of ``Pairs``, whose sides differ in width,
            it has values for each row, ``(n, ...)``.
        per_token: Names of fields of tokens besides those of ``PER_TOKEN``.
        per_row: Names of fields with a value for each sample whose shape is like that of fields of tokens.

    Returns:
        A tensor ``(N, width, ...)`` with zeros at the columns that were taken off, or ``(N,)``; of ``Pairs`` ``(N,
        ...)``.

    Raises:
        LeafError: The function does not return a tensor.
        StructureError: A result has neither of the two shapes, or see :func:`micro_batches`.
        SizeError: A row has more than ``tokens`` tokens.
    """
    tree: Any = require_tree(batch, "map_tokens()")
    width = None if token_fields.is_pairs(tree) else flags_of(tree, "response_mask").shape[1]
    sizes = _lengths(tree)
    out: Tensor | None = None
    for rows in bins(sizes, tokens):
        part: Any = trim(take(tree, rows), per_token=per_token, per_row=per_row)
        result: Any = function(part)
        if not isinstance(result, Tensor):
            raise LeafError(f"map_tokens() takes a function that returns a tensor, got {type(result).__name__}")
        result = _of_rows(result, len(rows)) if width is None else _as_wide(result, tree, part, width)
        whole: Tensor = result.new_zeros((len(sizes), *result.shape[1:])) if out is None else out
        if result.shape[1:] != whole.shape[1:]:
            got = f"{list(result.shape)} after {list(whole.shape)}"
            raise StructureError(f"the function must return the same shape for all rows, got {got} for all of them")
        out = whole.index_copy(0, torch_side().to_tensor(rows).to(whole.device), result)
    return out if out is not None else torch.zeros((0,) if width is None else (0, width))


def _of_rows(result: Tensor, count: int) -> Tensor:
    if result.shape[:1] != (count,):
        raise StructureError(f"the function must return {[count]} or {[count, '...']}, got {list(result.shape)}")
    return result


def _as_wide(result: Tensor, tree: Any, part: Any, width: int) -> Tensor:
    """Return values of tokens with zeros at the columns that were taken off, or values of rows as they are."""
    shape, (count, own) = tuple(result.shape), part.response_mask.shape
    if shape != (count,) and shape[:2] != (count, own):
        raise StructureError(f"the function must return {[count]} or {[count, own]}, got {list(shape)}")
    if len(shape) == 1:
        return result
    columns = (width - own, 0) if token_fields.layout_of(tree) == "left" else (0, width - own)
    return torch.nn.functional.pad(result, (*[0, 0] * (len(shape) - 2), *columns))


def _lengths(tree: Any) -> NDArray[np.intp]:
    """Return the number of tokens of each row, as they enter a model."""
    if token_fields.is_pairs(tree):
        before, chosen, rejected = token_fields.masks_of_pairs(tree).values()
        total: NDArray[np.intp] = 2 * before.sum(1) + chosen.sum(1) + rejected.sum(1)
        return total
    layout = token_fields.layout_of(tree)
    if layout in ("ragged", "packed"):
        text = f"the layout {layout!r} is not cut by columns; micro-batches take 'split', 'left' or 'right'"
        raise StructureError(text)
    if layout == "split":
        counts: NDArray[np.intp] = flags_of(tree, "prompt_mask").sum(1) + flags_of(tree, "response_mask").sum(1)
    else:
        counts = flags_of(tree, "attention_mask").sum(1)
    return counts


def pairs_of(batch: BatchProtocol, better: Lengths, worse: Lengths) -> Pairs:
    """Return pairs of rows of rollouts, as of the rows that ``groups(batch, "uid").pairs(batch.rewards)`` gives.

    Args:
        batch: Rollouts in the layout ``split``, with ``uid``.
        better: Row numbers of the better responses.
        worse: Row numbers of the worse responses to the same prompts.

    Returns:
        New pairs with the meta of the batch, without the columns that no row uses. Tokens are copied.

    Raises:
        MissingFieldError: The batch does not have the fields of the layout.
        SizeError: Row numbers are not whole numbers from 0 up.
        StructureError: There are not as many better as worse rows, a row is paired with itself, or two rows of a pair
            have another ``uid`` or prompt.
        IndexError: A row number is out of range.
    """
    tree: Any = require_tree(batch, "pairs_of()")
    first, second = whole_numbers(better, "row numbers"), whole_numbers(worse, "row numbers")
    if len(first) != len(second):
        raise StructureError(f"a pair is a better and a worse row, got {len(first)} and {len(second)} row numbers")
    names = ("prompt_ids", "prompt_mask", "response_ids", "response_mask", "loss_mask", "uid")
    only: Any = Rollouts(**{name: tree[name] for name in names})
    uid = np.asarray(only.uid)
    if (same := np.flatnonzero(first == second)).size:
        raise StructureError(f"row {int(first[same[0]])} is the better and the worse one of a pair")
    if len(other := np.flatnonzero(uid[first] != uid[second])):
        pair = int(other[0])
        rows, keys = (int(first[pair]), int(second[pair])), (uid[first[pair]], uid[second[pair]])
        raise StructureError(f"rows {rows[0]} and {rows[1]} are of other prompts, {keys[0]!r} and {keys[1]!r}", "uid")
    better_rows, worse_rows = take(only, first), take(only, second)
    masks, ids = ([rows[name] for rows in (better_rows, worse_rows)] for name in ("prompt_mask", "prompt_ids"))
    differ = (masks[0] != masks[1]) | ((ids[0] != ids[1]) & masks[0])
    if bool(differ.any()):
        pair = int(differ.any(1).nonzero()[0])
        rows = int(first[pair]), int(second[pair])
        raise StructureError(f"rows {rows[0]} and {rows[1]} have one uid, but prompts that differ", "prompt_ids")
    chosen, rejected = trim(better_rows), trim(worse_rows)
    pairs = Pairs(
        prompt_ids=chosen.prompt_ids,
        prompt_mask=chosen.prompt_mask,
        chosen_ids=chosen.response_ids,
        chosen_mask=chosen.response_mask,
        rejected_ids=rejected.response_ids,
        rejected_mask=rejected.response_mask,
    )
    keep_meta(tree, pairs)
    return pairs
