"""Rows of a batch repeated, cut into equal parts, padded, joined by key, balanced by length, and in groups.

Functions, not methods: each method would take a name away from fields. Each gives a batch of the same class.
"""

from typedbatch.rows.balancing import balance, bins, restore
from typedbatch.rows.grouping import Groups, groups
from typedbatch.rows.joining import union
from typedbatch.rows.projecting import field_names, project
from typedbatch.rows.repeating import chunk, pad_rows, repeat

__all__ = [
    "Groups",
    "balance",
    "bins",
    "chunk",
    "field_names",
    "groups",
    "pad_rows",
    "project",
    "repeat",
    "restore",
    "union",
]


def __dir__() -> list[str]:
    return __all__  # what is public; not the modules that it comes from
