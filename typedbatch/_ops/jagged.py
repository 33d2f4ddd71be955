"""Jagged tensors of ``torch.nested``: rows of them, which torch itself takes only one by one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typedbatch._ops.ragged import cat_sequences, take_sequences
from typedbatch._tree.leaves import Sequences, Tree, describe, new_sequences, new_tree
from typedbatch.errors import RowIndexError, StructureError


def take_jagged(tensor: Any, index: Any, refusal: RuntimeError) -> Any:
    """Rows of a tensor that torch has refused to index: those of a jagged one all the same. Slices are views.

    Args:
        tensor: the tensor.
        index: the index, as an int, a slice or an array.
        refusal: what torch has raised; it is raised again for a tensor that is not nested.

    Raises:
        RowIndexError: a nested tensor of another layout.
    """
    if not tensor.is_nested:
        raise refusal
    if not _is_plain(tensor):
        raise RowIndexError(f"{describe(tensor)} takes no {index!r}; {_MAKE_JAGGED}") from refusal
    return _as_jagged(take_sequences(_as_sequences(tensor), index))


def cat_jagged(tensors: Sequence[Any]) -> Any:
    """Jagged tensors joined along their rows.

    Raises:
        StructureError: one is not such a tensor, or they do not fit together.
    """
    if not all(tensor.is_nested and _is_plain(tensor) for tensor in tensors):
        raise StructureError(f"{', '.join(map(describe, tensors))} are not joined; {_MAKE_JAGGED}")
    return _as_jagged(cat_sequences([_as_sequences(tensor) for tensor in tensors], "error"))


_MAKE_JAGGED = "make all with layout=torch.jagged, without gaps and with the rows next, or hold them as a Ragged"


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
