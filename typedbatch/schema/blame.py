"""Who is to blame when fields disagree on a size: the minority; in a tie, both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from typedbatch._report import shorten
from typedbatch.errors import Problem
from typedbatch.schema.names import Path

_MOST = 1000
"""At most this many conflicts on one dimension are listed."""

Size = int | tuple[int, ...]
"""The size of a dimension, or the sizes of several under one name, as in ``*obs``."""

Votes = dict[str, dict[Path, Size]]
"""Key of a dimension -> path of a field -> the size it has there."""


def conflicts(votes: Votes, schema: str) -> Iterator[Problem]:
    """The fields whose size of a dimension differs from what most fields have."""
    for key, sizes in votes.items():
        yield from _minority(name_of(key), sizes, schema)


def key_in(path: Path, name: str) -> str:
    """The key of a dimension that means a size of its own in the batch at ``path``."""
    return f"{path} {name}"


def name_of(key: str) -> str:
    """The name of a dimension as it is declared, in which there is no blank."""
    return key.rpartition(" ")[2]


def _minority(name: str, sizes: dict[Path, Size], schema: str) -> Iterator[Problem]:
    # A field has one vote for each size in it, so that a nested batch of many leaves does not outvote the others; how
    # many leaves there are decides between equals.
    counts = Counter(size for _, size in {(path.top, size) for path, size in sizes.items()})
    if len(counts) <= 1:
        return
    by_size: dict[Size, list[Path]] = {}
    for path, size in sizes.items():
        by_size.setdefault(size, []).append(path)
    weight = {size: (count, len(by_size[size])) for size, count in counts.items()}
    usual = [size for size in weight if weight[size] == max(weight.values())]
    wrong = [(path, size) for path, size in sizes.items() if size not in usual or len(usual) > 1]
    for path, size in wrong[:_MOST]:
        others = _others([other for other in usual if other != size], by_size)
        yield Problem(
            str(path), "TB302 dimension-conflict", "", f"{name} is {show_sizes(size)} here, but {others}", schema
        )


def _others(sizes: list[Size], by_size: dict[Size, list[Path]]) -> str:
    more = f" and {len(sizes) - 3} more sizes" if len(sizes) > 4 else ""
    shown = sizes if not more else sizes[:3]
    return ", ".join(f"{show_sizes(size)} in {_some(by_size[size])}" for size in shown) + more


def _some(paths: list[Path]) -> str:
    shown = paths if len(paths) <= 12 else paths[:3]
    return ", ".join(shorten(str(path)) for path in shown) + (
        f" and {len(paths) - 3} more" if shown is not paths else ""
    )


def show_sizes(sizes: Size) -> str:
    """``"5"`` for one size, ``"(3, 4)"`` for several."""
    return str(sizes) if isinstance(sizes, int) else f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
