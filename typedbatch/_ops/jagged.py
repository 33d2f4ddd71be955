"""Rows of jagged tensors of ``torch.nested``, which torch itself can index only by an int."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typedbatch._ops.ragged_rows import cat_sequences, take_sequences
from typedbatch._tree.kinds import Sequences, Tree, describe, new_sequences, new_tree
from typedbatch.errors import RowIndexError, StructureError


def take_jagged(tensor: Any, index: Any, refusal: RuntimeError) -> Any:
    """Return rows of a jagged tensor that torch has refused to index; slices are views.

    Args:
        tensor: Any tensor.
        index: Index of the rows: an int, a slice or an array.
        refusal: Error from torch; it is raised again for a tensor that is not nested.

    Raises:
        RowIndexError: The tensor is nested but not jagged, or has gaps, or its rows do not come next.
    """
    if not tensor.is_nested:
        if tensor.layout is not sys.modules["torch"].strided:
            raise RowIndexError(f"{describe(tensor)} is sparse, so no rows can be taken; to_dense() first") from refusal
        raise refusal
    if not _is_plain(tensor):
        raise RowIndexError(f"{describe(tensor)} cannot be indexed by {index!r}; {_MAKE_JAGGED}") from refusal
    return _as_jagged(take_sequences(_as_sequences(tensor), index))


def cat_jagged(tensors: Sequence[Any]) -> Any:
    """Concatenate jagged tensors along their rows.

    Raises:
        StructureError: A tensor is not jagged, or the tensors do not fit together.
    """
    if not all(tensor.is_nested and _is_plain(tensor) for tensor in tensors):
        raise StructureError(f"{', '.join(map(describe, tensors))} cannot be joined; {_MAKE_JAGGED}")
    return _as_jagged(cat_sequences([_as_sequences(tensor) for tensor in tensors], "error"))


_MAKE_JAGGED = (
    "build nested tensors with layout=torch.jagged, without gaps and with the ragged dimension second, or use a Ragged"
)


def _is_plain(tensor: Any) -> bool:
    torch = sys.modules["torch"]
    return tensor.layout is torch.jagged and tensor.lengths() is None and tensor._ragged_idx == 1  # noqa: SLF001


def _as_sequences(tensor: Any) -> Any:
    values = new_tree(Tree.__plain__, {"values": tensor.values()})
    return new_sequences(Sequences, values, tensor.offsets().diff().cpu().numpy())


def _as_jagged(ragged: Any) -> Any:
    torch, values = sys.modules["torch"], ragged.values.__dict__["values"]
    offsets = torch.from_numpy(ragged.offsets).to(values.device)
    return torch.nested.nested_tensor_from_jagged(values, offsets)
