"""Marks and tests for ``torch.compile``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def is_compiling() -> bool:
    """Return whether ``torch.compile`` or ``torch.export`` traces the code that calls this function."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def called_while_compiling(function: F) -> F:
    """Let ``torch.compile`` call a function while it compiles, and keep the result as a constant; a decorator.

    This is what ``torch.compiler.assume_constant_result`` does, without an import of torch.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001  # it has no public name
    return function


def break_graph(reason: str) -> None:
    """End the graph of ``torch.compile`` before a call that it cannot trace; with ``fullgraph=True`` it is an error."""
    sys.modules["torch"]._dynamo.graph_break(msg=reason)  # noqa: SLF001  # torch has no public name for it
