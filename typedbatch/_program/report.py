"""Findings of a run, and the texts of its reports. Codes and words are those of the mypy plugin."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from typedbatch._names import nearest
from typedbatch._program.source import Source
from typedbatch._program.values import Code

FIELD, MAYBE, ARGUMENT, EXTEND = "batch-field", "batch-maybe-field", "batch-argument", "batch-extend"
SHAPE, DTYPE = "batch-shape", "batch-dtype"
SHAPES = (SHAPE, DTYPE)
SWAPPED = "batch-swapped"
NOTE, UNUSED = "note", "unused-dim"
"""Codes of notes, which are not about mistakes."""


@dataclass(frozen=True)
class Step:
    """A line of the trace of a finding: where something was made or called."""

    path: Path
    line: int
    text: str


class Level(NamedTuple):
    """A call that the run is in, or the top of a module, and where it is there.

    Attributes:
        code: The function; None for a module.
        is_certain: Whether every call of it with the same arguments comes to the operation.
    """

    source: Source
    code: Code | None
    node: ast.expr | ast.stmt
    is_certain: bool = True


class Mismatch(NamedTuple):
    """Shapes or dtypes that do not fit.

    Attributes:
        levels: Where, from the outermost call to the operation.
    """

    levels: tuple[Level, ...]
    text: str
    is_dtype: bool


@dataclass(frozen=True)
class Finding:
    """A mistake. Lines count from 1, columns from 0, as in Python's syntax trees.

    Attributes:
        names: Fields that it is about.
        trace: How the run came to it.
        is_ignored: Whether a comment ``# type: ignore`` is at its line.
    """

    path: Path
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    message: str
    names: frozenset[str]
    trace: tuple[Step, ...] = ()
    is_ignored: bool = False


@dataclass(frozen=True)
class Outcome:
    """Findings of a run, and where it ended.

    Attributes:
        findings: Mistakes, in the order of files and lines.
        unfinished: The function in which the steps of the run were used up; None if it came to the end.
        notes: Shapes that the program asks for, and names of sizes that say nothing.
        needs: Places at which batches are handed over, and whether each certainly is what is asked for.
    """

    findings: list[Finding]
    unfinished: Step | None = None
    notes: tuple[Finding, ...] = ()
    needs: Mapping[tuple[Path, int, int], bool] = field(default_factory=dict[tuple[Path, int, int], bool])


def missing(name: str, names: Collection[str], owner: str = "Batch", call: str = "") -> str:
    """Describe a read of a field that is not there, of a batch that a call gives to the function."""
    return f'{owner} has no field "{name}"{_place(call)}{hint(name, names)}'


def unmade(name: str, names: Collection[str], owner: str, call: str) -> str:
    """Describe a read of a field that nothing in a program sets."""
    near = nearest(name, sorted(names))
    hint = f'did you mean "{near}"?' if near else "nothing in this program sets it"
    return f'{owner} has no field "{name}"{_place(call)}; {hint}'


def maybe(name: str, line: int) -> str:
    """Describe a read of a field that one branch alone sets."""
    return f'Batch may have no field "{name}" here: it depends on line {line}, which not every run comes to'


def may_lack(asked: str, name: str, line: int) -> str:
    """Describe a batch without a field that a protocol or record asks for, unless one branch sets it."""
    return f'Batch may lack "{name}" of {asked} here: it depends on line {line}, which not every run comes to'


def lacking(asked: str, names: Iterable[str], has: Collection[str], owner: str = "Batch") -> str:
    """Describe a batch without fields that a protocol or record asks for."""
    return f"{owner} lacks {listed(names)} of {asked}; it has {', '.join(sorted(has)) or 'no fields'}"


def unfit(names: Collection[str], asked: str, takes: str, got: str) -> str:
    """Describe fields of another kind than a protocol or record takes."""
    if len(names) > 1:
        return f"Fields {listed(names)} of {asked} take {takes}, got {got}"
    return f"Field {listed(names)} of {asked} takes {takes}, got {got}"


def different(names: Iterable[str]) -> str:
    """Describe batches that cannot be joined."""
    return f"the batches have different fields: {listed(names)} not in all of them"


def unfilled(what: str, names: Iterable[str]) -> str:
    """Describe fields that a record needs, and that nobody gave."""
    return f"{what} lacks {listed(names)}"


def not_a_member(owner: str, name: str, names: Collection[str]) -> str:
    """Describe the read of a method or constant that a class does not have."""
    near = nearest(name, sorted(names))
    return f'{owner} has no attribute "{name}"' + (f'; did you mean "{near}"?' if near else "")


def _place(call: str) -> str:
    return f" in the call at {call}" if call else ""


def hint(name: str, names: Collection[str]) -> str:
    """Return the field that a name is a slip of, or else the fields that there are."""
    near = nearest(name, sorted(names))
    if near:
        return f'; did you mean "{near}"?'
    return f"; it has {', '.join(sorted(names))}" if names else "; it is empty"


def listed(names: Iterable[str]) -> str:
    """Return names in quotes."""
    return ", ".join(f'"{name}"' for name in sorted(names))
