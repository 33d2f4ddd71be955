"""Numbers of axes for runs such as ``*b`` and ``...``: a function is read once for each of a few numbers.

A report is kept only if it comes with every number. So the tables of operations know plain axes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_MOST: Final = 6
"""Of more runs in one function nothing is known."""

Key = tuple[str, int]
"""A run in a declaration, and the function or batch that it belongs to."""


class Ranks:
    """The numbers of axes that a function is read with; each is 1 unless another is chosen.

    Args:
        chosen: Other numbers.
    """

    def __init__(self, chosen: Mapping[Key, int] | None = None) -> None:
        self._chosen = dict(chosen or {})
        self._met: dict[Key, bool] = {}
        self._owners: dict[int, int] = {}
        self.asked_rank = False
        """Whether the function reads the number of axes of an array."""

    def count(self, run: str, scope: int, *, may_be_empty: bool = False) -> int | None:
        """Return the number of axes of a run; None in a function that has too many of them.

        Args:
            run: Text of the run.
            scope: Scope of the function or batch that it belongs to.
            may_be_empty: Whether it may well have no axes.
        """
        key = run, self._owners.setdefault(scope, len(self._owners))
        if key not in self._met and len(self._met) == _MOST:
            return None
        self._met.setdefault(key, may_be_empty)
        return self._chosen.get(key, 1)

    def others(self) -> Iterator[Ranks]:
        """Yield other numbers of axes, for one run each, and for all of them."""
        for count in (2, 3, 0):
            may = [key for key, may_be_empty in self._met.items() if count or may_be_empty or self.asked_rank]
            for key in may:
                yield Ranks({key: count})
            if len(may) > 1:
                yield Ranks(dict.fromkeys(may, count))
