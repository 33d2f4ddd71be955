"""Batches in ``torch.utils.data``: a Dataset of a batch's rows, and a ``collate_fn`` for a DataLoader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from torch.utils.data import Dataset

from typedbatch._core.kinds import Tree
from typedbatch._core.lengths import equal_rows, require_bounded
from typedbatch._ops.indexing import take
from typedbatch.batch import Batch
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


class BatchDataset(Dataset[B]):
    """A dataset of the rows of a batch.

    ``DataLoader(BatchDataset(rollout), batch_size=64, shuffle=True, collate_fn=collate)`` gets the rows of each batch
    by one index per field, and not row by row.

    Args:
        batch: The batch, which is shared.

    Raises:
        StructureError: fields have different lengths, or batches are nested more than 100 deep.
        NoLengthError: a field is a scalar.
    """

    def __init__(self, batch: B) -> None:
        equal_rows(require_bounded(batch, "BatchDataset()").__dict__)
        self.batch: B = batch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: int) -> B:
        return self.batch[index]

    def __getitems__(self, indices: Sequence[int]) -> B:
        """Return several rows as one batch. Data is copied."""
        tree: Any = self.batch
        rows: B = take(tree, list(indices))
        return rows


def collate(rows: Sequence[B] | B) -> B:
    """Stack rows to one batch of their class. Leaves stay arrays or tensors.

    Args:
        rows: The rows, or a batch of them as :class:`BatchDataset` returns it.

    Raises:
        StructureError: the rows cannot be stacked, or one lacks a field.
    """
    untyped: Any = rows
    batch: Any = untyped if isinstance(untyped, Tree) else Batch.stack(untyped, missing="error")
    collated: B = batch
    return collated
