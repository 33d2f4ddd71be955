"""Errors of typedbatch: one class per kind of mistake, each derived from the built-in error for it too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeVar

from typedbatch._names import nearest
from typedbatch._report import Part, as_rich, describe_problem, lines, page_address, plain

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "CallError", "Code", "DeclarationError", "EmptyBufferError", "EnvironmentFailedError", "FieldNameError",
    "LeafError", "MissingDependencyError", "MissingFieldError", "NoLengthError", "NoSizeError", "Problem",
    "RowAssignmentError", "RowIndexError", "SchemaError", "SettingError", "SizeError", "StorageError",
    "StreamError", "StreamTimeoutError", "StructureError", "TypedBatchError",
]  # fmt: skip
V = TypeVar("V")
R = TypeVar("R")
_MOST_NAMES: Final = 40
Code = Literal[
    "TB101 missing-field", "TB102 not-a-batch", "TB103 reserved-field", "TB104 endless-nesting",
    "TB105 unreadable-field",
    "TB201 wrong-dtype", "TB202 wrong-kind", "TB203 wrong-choice", "TB204 unwanted-gradient",
    "TB301 no-rows", "TB302 dimension-conflict", "TB303 wrong-shape", "TB304 wrong-size",
    "TB401 wrong-values", "TB402 broken-rule", "TB403 rule-raised",
]  # fmt: skip
"""Code of a problem; docs/errors has a page for each. TB1 is for names, TB2 kinds, TB3 dimensions, TB4 values."""


class TypedBatchError(Exception):
    """Base of all errors of typedbatch.

    Args:
        reason: Text with the expected value, the actual value and the remedy.
        path: Path of the field that is wrong, ``"obs.cam"``; empty for the batch itself.
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
        """Put ``name`` in front of the path, for the next outer level, and return the same error."""
        self.path = f"{name}.{self.path}" if self.path else name
        self.args = (self.reason, self.path)
        return self


class under:  # noqa: N801  # It is used like a function: with under("obs").
    """Context that puts the name of a field in front of the path of a :class:`TypedBatchError` raised in its block."""

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TypedBatchError):
            error.under(self.name)


def for_each(fields: Mapping[str, V], function: Callable[[V], R]) -> dict[str, R]:
    """Return the function's result for each field. The name of the field is put in front of the path of an error."""
    out: dict[str, R] = {}
    for name, value in fields.items():
        with under(name):
            out[name] = function(value)
    return out


class MissingFieldError(TypedBatchError, AttributeError, KeyError):
    """A field that is read or deleted does not exist.

    This is an ``AttributeError`` and a ``KeyError``, because ``batch.rew`` and ``batch["rew"]`` read the same field.
    The text is built on demand, so that ``hasattr(batch, "weight")`` is cheap.
    """

    owner: str
    field: str
    names: tuple[str, ...]
    name: str | None  # AttributeError declares it so.

    def __init__(self, owner: str, name: str, names: Collection[str]) -> None:
        Exception.__init__(self, owner, name, tuple(names))
        self.owner, self.field, self.names = owner, name, tuple(names)
        self.name = name  # Python reads it for its own "Did you mean", which needs obj too; obj stays None.

    def __str__(self) -> str:
        shown = [*self.names[:_MOST_NAMES], *(["..."] if len(self.names) > _MOST_NAMES else [])]
        has = f"it has {', '.join(shown)}" if self.names else "it is empty"
        return f"{self.owner} has no field {self.field!r}; {has}{did_you_mean(self.field, self.names)}"


class FieldNameError(TypedBatchError, TypeError, AssertionError):
    """A name cannot be that of a field: it is not a string, or means something else here."""


class LeafError(TypedBatchError, TypeError):
    """A value cannot become a leaf, or an operation does not support a leaf."""


class NoLengthError(TypedBatchError, TypeError):
    """A batch has no length and no rows, because a leaf is a scalar."""


class RowIndexError(TypedBatchError, IndexError):
    """One or more fields cannot be indexed so."""


class RowAssignmentError(TypedBatchError, ValueError, TypeError):
    """Rows do not fit the fields that they are assigned to. Nothing was written."""


class StructureError(TypedBatchError, ValueError):
    """Batches do not fit together: names, kinds or shapes differ."""


class SizeError(TypedBatchError, ValueError, AssertionError):
    """A number of rows is out of range, as in ``batch.split(0)``."""


class MissingDependencyError(TypedBatchError, ImportError):  # type: ignore[misc]  # Both have a path; ours is a str.
    """An operation needs a library that is not installed."""


class DeclarationError(TypedBatchError, TypeError):
    """The declaration of a protocol or record cannot be read as a schema."""


class EmptyBufferError(TypedBatchError, ValueError):
    """A buffer has no rows to return."""


class EnvironmentFailedError(TypedBatchError, RuntimeError):
    """An environment has raised an error, which is the cause of this one, or does not respond."""


class StorageError(TypedBatchError, ValueError):
    """A folder or file cannot be used, or has the wrong contents. Nothing in it was executed."""


class StreamError(TypedBatchError, RuntimeError):
    """A queue between processes has failed, or has lost rows."""


class StreamTimeoutError(TypedBatchError, TimeoutError):
    """A queue between processes has not enough rows in time, or does not answer."""


class SettingError(TypedBatchError, ValueError, AssertionError):
    """A setting is wrong: a level of checking that does not exist, or a number out of range."""


class NoSizeError(SettingError):
    """A dimension that is computed from others has a value that is not a size."""


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return ``"; did you mean 'rew'?"`` if one of ``names`` is close to ``name``, else an empty string."""
    near = nearest(name, names)
    return f"; did you mean {near!r}?" if near else ""


class Problem(NamedTuple):
    """A difference between a batch and a schema.

    Attributes:
        path: Path of the field: ``"rew"``, ``"obs.cam"``; empty for the batch itself.
        code: Stable code with its name, as in ``"TB101 missing-field"``; ``typedbatch explain TB101`` prints its page.
        expected: Description of what the schema requires.
        got: Description of what was found: shapes and dtypes, never values.
        schema: Name of the protocol or record.
        hint: Remedy, possibly empty.
    """

    path: str
    code: Code
    expected: str
    got: str
    schema: str
    hint: str = ""

    def __str__(self) -> str:
        return describe_problem(self)

    @property
    def page(self) -> str:
        """Address of the page that explains the code; reports under rich link to it."""
        return page_address(self.code)

    def to_dict(self) -> dict[str, str]:
        """Return the problem as a plain dictionary, for JSON, with the address of its page."""
        return {**self._asdict(), "page": self.page}


class SchemaError(TypedBatchError, ValueError):
    """A batch does not match a schema; :attr:`problems` has every difference.

    Args:
        schema: Name of the required protocol or record.
        problems: All differences, in the order of the schema's fields; conflicts of dimensions come last.
        got: Summary of the batch in one line, as in ``Batch[N=256]  obs f32[256,4]``.
        boundary: Boundary at which the batch was checked, as in ``argument `batch` of update()  ppo.py:88``.
        place: File and line of the declaration of the schema, ``"typedbatch/protocols.py:169"``.
    """

    schema: str
    problems: tuple[Problem, ...]
    got: str
    boundary: str
    place: str

    def __init__(
        self, schema: str, problems: tuple[Problem, ...], got: str = "", boundary: str = "", place: str = ""
    ) -> None:
        Exception.__init__(self, schema, problems, got, boundary, place)
        self.schema, self.problems, self.got, self.boundary, self.place = schema, problems, got, boundary, place

    def __str__(self) -> str:
        return plain(self._lines())

    def __rich__(self) -> Text:
        return as_rich(self._lines())

    def _lines(self) -> Iterator[list[Part]]:
        return lines(self.schema, self.place, self.boundary, self.got, self.problems)

    def to_dict(self) -> dict[str, object]:
        """Return the whole report as plain dictionaries and lists, for JSON."""
        texts = {name: getattr(self, name) for name in ("schema", "place", "boundary", "got")}
        return {**texts, "problems": [problem.to_dict() for problem in self.problems]}


class CallError(SchemaError):
    """The arguments or the result of a function under :func:`typedbatch.checked` do not match its annotations.

    ``schema`` is the function, and the paths of problems begin with the name of an argument, as ``"logp"`` and
    ``"batch.obs"``, or with ``"return"`` for the result.
    """

    def _lines(self) -> Iterator[list[Part]]:
        is_result = self.problems[0].path.startswith("return")
        part = "the result of {} is" if is_result else "the arguments of {} are"
        head = f"{part.format(self.schema)} not as declared"
        return lines(self.schema, self.place, self.boundary, self.got, self.problems, head)
