"""What typedbatch raises: one class per mistake, each also the built-in error that Python people expect."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Self


class TypedBatchError(Exception):
    """Root of every error that typedbatch raises itself.

    Args:
        reason: what was expected, what came and what to do.
        path: the field it is about, ``"obs.cam"``; empty when it is about the batch.
    """

    reason: str
    path: str
    args: tuple[Any, ...]

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason, self.path = reason, path

    def __str__(self) -> str:
        return f"field {self.path!r}: {self.reason}" if self.path else self.reason

    def under(self, name: str) -> Self:
        """The same error seen from one level further out: the path gets ``name`` in front."""
        self.path = f"{name}.{self.path}" if self.path else name
        self.args = (self.reason, self.path)
        return self


class MissingFieldError(TypedBatchError, AttributeError, KeyError):
    """A field was read, or deleted, that the batch does not have.

    It is an ``AttributeError`` and a ``KeyError``, because ``batch.rew`` and ``batch["rew"]`` are the same read.
    The text is built only when somebody looks at it, so ``hasattr(batch, "weight")`` stays cheap.
    """

    owner: str
    field: str
    names: tuple[str, ...]
    name: str | None  # as AttributeError declares it

    def __init__(self, owner: str, name: str, names: Collection[str]) -> None:
        Exception.__init__(self, owner, name, tuple(names))
        self.owner, self.field, self.names = owner, name, tuple(names)
        self.name = name  # what Python's own "Did you mean" reads; obj stays None, so that it adds nothing

    def __str__(self) -> str:
        has = f"it has {', '.join(self.names)}" if self.names else "it is empty"
        return f"{self.owner} has no field {self.field!r}; {has}{did_you_mean(self.field, self.names)}"


class FieldNameError(TypedBatchError, TypeError, AssertionError):
    """A field name that cannot be one: not a string, or a name that means something else here."""


class LeafError(TypedBatchError, TypeError):
    """A value that cannot become a leaf, or a leaf that cannot take part in an operation."""


class NoLengthError(TypedBatchError, TypeError):
    """The length or the rows of a batch were asked for, but a scalar leaf has none."""


class RowIndexError(TypedBatchError, IndexError):
    """An index that at least one field cannot take."""


class RowAssignmentError(TypedBatchError, ValueError, TypeError):
    """Rows that do not fit the fields they are assigned to. Nothing was written."""


class StructureError(TypedBatchError, ValueError):
    """Batches that do not fit together: other names, other kinds, other shapes."""


class SizeError(TypedBatchError, ValueError, AssertionError):
    """A number of rows that makes no sense, as in ``batch.split(0)``."""


class MissingDependencyError(TypedBatchError, ImportError):  # type: ignore[misc]  # both have a path, ours is str
    """An operation needs a library that is not installed."""


class DeclarationError(TypedBatchError, TypeError):
    """A protocol or record whose declaration cannot be read as a schema."""


def did_you_mean(name: str, names: Collection[str]) -> str:
    """``"; did you mean 'rew'?"`` when one of ``names`` is close to ``name``, else an empty string."""
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a batch differs from a schema.

    Attributes:
        path: where, inside the batch: ``"rew"``, ``"obs.cam"``; empty for the batch itself.
        code: stable code with its name, as in ``"TB101 missing-field"``.
        expected: what the schema asks for.
        got: what was there; shapes and dtypes, never values.
        schema: name of the protocol or record.
        hint: what to do about it, possibly empty.
    """

    path: str
    code: str
    expected: str
    got: str
    schema: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"batch.{self.path}" if self.path else "batch"
        says = self.got if not self.expected else f"{self.got}, expected {self.expected}"
        return f"{where}  {says}  [{self.code}]" + (f"\n    {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, str]:
        """The problem as a plain dictionary, for JSON."""
        return asdict(self)


class SchemaError(TypedBatchError, ValueError):
    """A batch does not match a schema; :attr:`problems` has every difference.

    Args:
        schema: name of the protocol or record that was asked for.
        problems: all differences, in the order of the schema's fields.
        got: one line about the batch, as in ``Batch[N=256]  obs f32[256,4]``.
        boundary: where the batch was checked, as in ``argument `batch` of update()  ppo.py:88``.
    """

    schema: str
    problems: tuple[Problem, ...]
    got: str
    boundary: str

    def __init__(self, schema: str, problems: tuple[Problem, ...], got: str = "", boundary: str = "") -> None:
        Exception.__init__(self, schema, problems, got, boundary)
        self.schema, self.problems, self.got, self.boundary = schema, problems, got, boundary

    def __str__(self) -> str:
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"batch is not {_article(self.schema)} {self.schema} ({count})"]
        if self.boundary:
            lines.append(f"  boundary   {self.boundary}")
        if self.got:
            lines.append(_wrap(f"  got        {self.got}", 13))
        lines += [_wrap(f"  {line}", 6) for problem in self.problems for line in str(problem).splitlines()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The whole report as plain dictionaries and lists, for JSON."""
        return {
            "schema": self.schema,
            "boundary": self.boundary,
            "got": self.got,
            "problems": [problem.to_dict() for problem in self.problems],
        }


def _wrap(line: str, indent: int) -> str:
    # Two blanks part what belongs apart, as one field from the next; at those, lines are broken first.
    lines = [""]
    for part in line.removeprefix("  ").split("  "):
        if lines[-1] and len(lines[-1]) + len(part) > 94:
            lines.append(" " * (indent - 2))
        lines[-1] += f"  {part}"
    return "\n".join(lines)


def _article(noun: str) -> str:
    # By the sound: an ObsBatch, an RLBatch, a UserBatch.
    return "an" if re.match(r"[AEIO]|U(?!s|ni|t)|[FHLMNRSX](?=[A-Z])", noun) else "a"
