"""A hook for what the engine knows of expressions, as an editor shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mypy.nodes import Expression, MypyFile

from typedbatch._program.arrays.values import Value

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

Observe = Callable[[Expression, Value, "Reading", bool], None]
"""Called with an expression, what it is, what reads it, and whether it is assigned to."""
Observer = Callable[[Any, MypyFile], Observe]
"""Called with mypy's checker and a file that is about to be looked at; it returns what is called in that file."""

_observer: Observer | None = None


def observe_files(observer: Observer | None) -> None:
    """Call an observer for each file from now on, in place of the one before; None for no observer."""
    global _observer
    _observer = observer


def observe_in(api: Any, tree: MypyFile) -> Observe | None:
    """Return what is called in a file; None if nobody observes."""
    return None if _observer is None else _observer(api, tree)
