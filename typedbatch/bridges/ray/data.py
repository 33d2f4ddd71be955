"""Datasets of Ray Data, from and to batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_type_hints

from typing_extensions import TypeVar

from typedbatch._validation.checked import checked
from typedbatch._validation.validate import validate
from typedbatch.batch import Batch
from typedbatch.protocols import BatchProtocol

if TYPE_CHECKING:
    from ray.data import Dataset

B = TypeVar("B", bound=BatchProtocol)


def map_batches(dataset: Dataset, function: Callable[[B], BatchProtocol], **options: Any) -> Dataset:
    """``dataset.map_batches`` for a function from batch to batch; nested fields and arrays of any shape stay whole.

    Args:
        dataset: of Ray Data; :func:`from_batches` makes one.
        function: what it is declared to take is made of each block, a record too, and validated, as what it gives is.
        **options: as ``Dataset.map_batches`` takes them, for example ``batch_size=256``.
    """
    from typedbatch.bridges.arrow import from_arrow, to_arrow

    schema = next(iter(get_type_hints(function).values()), Batch)
    whole: Callable[[Any], BatchProtocol] = checked(function)

    def call(table: Any) -> Any:
        return to_arrow(whole(validate(from_arrow(table), schema)))

    return dataset.map_batches(call, batch_format="pyarrow", **options)


def from_batches(*batches: BatchProtocol) -> Dataset:
    """A dataset of Ray Data with the rows of batches, a block for each."""
    from ray.data import from_arrow

    from typedbatch.bridges.arrow import to_arrow

    return from_arrow([to_arrow(batch) for batch in batches])
