"""Places of shapes that do not fit: in the function where they meet, or at the call that brings them together."""

from __future__ import annotations

from collections.abc import Callable, Collection

from typedbatch._program.report import DTYPE, SHAPE, Finding, Level, Misfit, Step
from typedbatch._program.values import Code

Alone = Callable[[Code], Collection[int]]
"""Returns the lines of a function where shapes do not fit whatever it is called with."""


def finding_of(misfit: Misfit, alone: Alone) -> Finding | None:
    """Return the report of shapes that do not fit; None where they may be those of no call.

    It is at the innermost place where the function has the mismatch whatever it is called with, as that is the place to
    be mended; where no function has it by itself, at the outermost.
    """
    at = len(misfit.levels) - 1
    while at > 0 and not _is_to_blame(misfit.levels[at], alone):
        if not misfit.levels[at].is_certain:
            return None
        at -= 1
    level, inner = misfit.levels[at], misfit.levels[-1]
    node, text = level.node, misfit.text
    if level is not inner:
        name = _name(inner.code)
        text = f"in {name}, line {inner.node.lineno}: {text}"
    code = DTYPE if misfit.is_dtype else SHAPE
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    steps = tuple(
        Step(one.source.path, one.node.lineno, f"{_name(callee.code)}() is called here")
        for one, callee in zip(misfit.levels, misfit.levels[1:], strict=False)
    )
    steps = (*steps, Step(inner.source.path, inner.node.lineno, misfit.text))
    path, is_ignored = level.source.path, level.source.ignores(node.lineno, code)
    return Finding(path, node.lineno, node.col_offset, *end, code, text, frozenset(), steps, is_ignored)


def _is_to_blame(level: Level, alone: Alone) -> bool:
    return level.code is None or level.node.lineno in alone(level.code)


def _name(code: Code | None) -> str:
    if code is None:
        return "the module"
    return f"{code.name} of {code.owner.name}" if code.owner is not None else code.name
