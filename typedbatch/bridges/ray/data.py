"""Conversion of batches to and from datasets of Ray Data."""

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
    """Call ``dataset.map_batches`` with a function from batch to batch.

    Nested fields and arrays of any shape are preserved.

    Args:
        dataset: A dataset of Ray Data, such as one from :func:`from_batches`.
        function: A function whose argument and result are validated as it declares them. Each block is converted to the
            declared argument, also if that is a record.
        **options: Options of ``Dataset.map_batches``, for example ``batch_size=256``.
    """
    from typedbatch.bridges.arrow import from_arrow, to_arrow

    schema = next(iter(get_type_hints(function).values()), Batch)
    validated: Callable[[Any], BatchProtocol] = checked(function)

    def call(table: Any) -> Any:
        return to_arrow(validated(validate(from_arrow(table), schema)))

    return dataset.map_batches(call, batch_format="pyarrow", **options)


def from_batches(*batches: BatchProtocol) -> Dataset:
    """Return a dataset of Ray Data with the rows of the batches, one block for each batch."""
    from ray.data import from_arrow

    from typedbatch.bridges.arrow import to_arrow

    return from_arrow([to_arrow(batch) for batch in batches])
