"""Functions that repeat, split, pad, join, balance and group the rows of a batch.

They are functions and not methods because each method would take a name away from fields. Batches that they return
have the class of the batch that was passed.
"""

from typedbatch.rows.balancing import balance, bins, restore
from typedbatch.rows.grouping import Groups, groups
from typedbatch.rows.joining import union
from typedbatch.rows.projecting import field_names, project
from typedbatch.rows.repeating import chunk, pad_rows, repeat

__all__ = [
    "Groups", "balance", "bins", "chunk", "field_names", "groups", "pad_rows", "project", "repeat", "restore", "union",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__  # without the submodules, which are private
