"""Batches in ``torch.utils.data``: a Dataset of their rows, and what a DataLoader puts rows together with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from torch.utils.data import Dataset

from typedbatch._ops.indexing import take
from typedbatch._tree.leaves import Tree
from typedbatch._tree.rows import equal_rows, require_bounded
from typedbatch.batch import Batch
from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound=BatchProtocol)


class BatchDataset(Dataset[B]):
    """The rows of a batch: ``DataLoader(BatchDataset(rollout), batch_size=64, shuffle=True, collate_fn=collate)``.

    A loader that asks for several rows at once gets them with one index per field, not row by row.

    Args:
        batch: the rows, which are shared.

    Raises:
        StructureError: fields of different lengths, or batches nested more than 100 deep.
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
        """Several rows as one batch, copied."""
        tree: Any = self.batch
        rows: B = take(tree, list(indices))
        return rows


def collate(rows: Sequence[B] | B) -> B:
    """One batch of rows, of their class: records stay records. Leaves stay arrays or tensors, as they are.

    Args:
        rows: the rows, or the batch of them that :class:`BatchDataset` has made already.

    Raises:
        StructureError: the rows do not fit together, or one lacks a field.
    """
    given: Any = rows
    batch: Any = given if isinstance(given, Tree) else Batch.stack(given, missing="error")
    collated: B = batch
    return collated
