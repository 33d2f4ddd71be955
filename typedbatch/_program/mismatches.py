"""Places of shapes that do not fit: in the function where they meet, or at the call that brings them together."""

from __future__ import annotations

from collections.abc import Callable, Collection

from typedbatch._program.report import DTYPE, SHAPE, Finding, Level, Mismatch, Step
from typedbatch._program.values import Code

Alone = Callable[[Code], Collection[int]]
"""Returns the lines of a function where shapes do not fit whatever it is called with."""


def finding_of(mismatch: Mismatch, alone: Alone) -> Finding | None:
    """Return the report of shapes that do not fit; None where they may be those of no call.

    It is at the innermost place where the function has the mismatch whatever it is called with, as that is the place to
    be mended; where no function has it by itself, at the outermost.
    """
    at = len(mismatch.levels) - 1
    while at > 0 and not _is_to_blame(mismatch.levels[at], alone):
        if not mismatch.levels[at].is_certain:
            return None
        at -= 1
    level, inner = mismatch.levels[at], mismatch.levels[-1]
    node, text = level.node, mismatch.text
    if level is not inner:
        name = _name_of(inner.code)
        text = f"in {name}, line {inner.node.lineno}: {text}"
    code = DTYPE if mismatch.is_dtype else SHAPE
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    steps = tuple(
        Step(one.source.path, one.node.lineno, f"{_name_of(callee.code)}() is called here")
        for one, callee in zip(mismatch.levels, mismatch.levels[1:], strict=False)
    )
    steps = (*steps, Step(inner.source.path, inner.node.lineno, mismatch.text))
    path, is_ignored = level.source.path, level.source.ignores(node.lineno, code)
    return Finding(path, node.lineno, node.col_offset, *end, code, text, frozenset(), steps, is_ignored)


def _is_to_blame(level: Level, alone: Alone) -> bool:
    return level.code is None or level.node.lineno in alone(level.code)


def _name_of(code: Code | None) -> str:
    return "the module" if code is None else code.shown
