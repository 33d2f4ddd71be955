"""Size conflicts between fields: the fields in the minority are reported, and in a tie all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from typedbatch._report import shorten
from typedbatch.errors import Problem
from typedbatch.schema.paths import Path

_MOST = 1000
"""Largest number of conflicts that is listed for one dimension."""

Size = int | tuple[int, ...]
"""The size of a dimension, or the sizes of the dimensions that share a name, as in ``*obs``."""

Votes = dict[str, dict[Path, Size]]
"""The sizes of each dimension, by its key and by the path of the field that has the size."""


def conflicts(votes: Votes, schema: str, right: Collection[Path] = ()) -> Iterator[Problem]:
    """Yield a problem for each size of a dimension that most fields do not have, unless its path is in ``right``."""
    for key, sizes in votes.items():
        # A top-level field has one vote for each size in it, so that a nested batch of many leaves does not outvote
        # the other fields. The number of leaves breaks ties.
        if len(set(sizes.values())) <= 1:
            continue
        counts = Counter(size for _, size in {(path.top, size) for path, size in sizes.items()})
        by_size: dict[Size, list[Path]] = {}
        for path, size in sizes.items():
            by_size.setdefault(size, []).append(path)
        weight = {size: (count, len(by_size[size])) for size, count in counts.items()}
        usual = [size for size in weight if weight[size] == max(weight.values())]
        usual = [*{size for path, size in sizes.items() if path in right}] or usual
        wrong = [(path, size) for path, size in sizes.items() if size not in usual or len(usual) > 1]
        for path, size in wrong[:_MOST]:
            others = [other for other in usual if other != size]
            shown = others if len(others) <= 4 else others[:3]
            texts = []
            for other in shown:
                paths = by_size[other]
                few = paths if len(paths) <= 12 else paths[:3]
                rest = f" and {len(paths) - 3} more" if few is not paths else ""
                texts.append(f"{show_sizes(other)} in {', '.join(shorten(str(path)) for path in few)}{rest}")
            more = f" and {len(others) - 3} more sizes" if shown is not others else ""
            name = key.rpartition(" ")[2]  # declared names have no blanks
            got = f"{name} is {show_sizes(size)} here, but {', '.join(texts)}{more}"
            yield Problem(str(path), "TB302 dimension-conflict", "", got, schema)


def key_in(path: Path, name: str) -> str:
    """Return the key of a dimension whose size is local to the batch at ``path``."""
    return f"{path} {name}"


def show_sizes(sizes: Size) -> str:
    """Return the text for sizes: ``"5"`` for one size, ``"(3, 4)"`` for several."""
    return str(sizes) if isinstance(sizes, int) else f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
