"""What typedbatch raises: one class per mistake, each also the built-in error that Python people expect."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from typedbatch._names import nearest
from typedbatch._report import Part, as_rich, describe_problem, lines, page_address, plain

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "CallError", "Code", "DeclarationError", "EmptyBufferError", "EnvironmentFailedError", "FieldNameError",
    "LeafError", "MissingDependencyError", "MissingFieldError", "NoLengthError", "NoSizeError", "Problem",
    "RowAssignmentError", "RowIndexError", "SchemaError", "SettingError", "SizeError", "StorageError",
    "StructureError", "TypedBatchError",
]  # fmt: skip


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


class under:  # noqa: N801  # it reads as a word: with under("obs")
    """Puts the name of a field in front of the path of an error of ours that comes out of the block."""

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TypedBatchError):
            error.under(self.name)


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
        shown = [*self.names[:_MOST_NAMES], *(["..."] if len(self.names) > _MOST_NAMES else [])]
        has = f"it has {', '.join(shown)}" if self.names else "it is empty"
        return f"{self.owner} has no field {self.field!r}; {has}{did_you_mean(self.field, self.names)}"


_MOST_NAMES: Final = 40


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


class EmptyBufferError(TypedBatchError, ValueError):
    """Rows were asked of a buffer that has none."""


class EnvironmentFailedError(TypedBatchError, RuntimeError):
    """An environment has raised an error, or does not answer; what it raised is the cause of this."""


class StorageError(TypedBatchError, ValueError):
    """A folder or file that cannot be used, or that is not what it should be. Nothing in it was executed."""


class SettingError(TypedBatchError, ValueError, AssertionError):
    """A setting that makes no sense: a level of checking that does not exist, or a number out of its range."""


class NoSizeError(SettingError):
    """A dimension that is computed from others, and is not a size for what these are."""


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return ``"; did you mean 'rew'?"`` when one of ``names`` is close to ``name``, else an empty string."""
    near = nearest(name, names)
    return f"; did you mean {near!r}?" if near else ""


Code = Literal[
    "TB101 missing-field",
    "TB102 not-a-batch",
    "TB103 reserved-field",
    "TB104 endless-nesting",
    "TB105 unreadable-field",
    "TB201 wrong-dtype",
    "TB202 wrong-kind",
    "TB203 wrong-choice",
    "TB301 no-rows",
    "TB302 dimension-conflict",
    "TB303 wrong-shape",
    "TB304 wrong-size",
    "TB401 wrong-values",
    "TB402 broken-rule",
    "TB403 rule-raised",
]
"""Every kind of problem; docs/errors has a page for each. TB1 is names, TB2 kinds, TB3 dimensions, TB4 values."""


class Problem(NamedTuple):
    """One way in which a batch differs from a schema.

    Attributes:
        path: where, inside the batch: ``"rew"``, ``"obs.cam"``; empty for the batch itself.
        code: stable code with its name, as in ``"TB101 missing-field"``; ``typedbatch explain TB101`` prints its page.
        expected: what the schema asks for.
        got: what was there; shapes and dtypes, never values.
        schema: name of the protocol or record.
        hint: what to do about it, possibly empty.
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
        """The address of the page that explains the code; reports under rich link to it."""
        return page_address(self.code)

    def to_dict(self) -> dict[str, str]:
        """The problem as a plain dictionary, for JSON, with the address of its page."""
        return {**self._asdict(), "page": self.page}


class SchemaError(TypedBatchError, ValueError):
    """A batch does not match a schema; :attr:`problems` has every difference.

    Args:
        schema: name of the protocol or record that was asked for.
        problems: all differences, in the order of the schema's fields; conflicts of dimensions come last.
        got: one line about the batch, as in ``Batch[N=256]  obs f32[256,4]``.
        boundary: where the batch was checked, as in ``argument `batch` of update()  ppo.py:88``.
        place: where the schema is declared, ``"typedbatch/protocols.py:169"``.
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
        """The whole report as plain dictionaries and lists, for JSON."""
        return {
            "schema": self.schema,
            "place": self.place,
            "boundary": self.boundary,
            "got": self.got,
            "problems": [problem.to_dict() for problem in self.problems],
        }


class CallError(SchemaError):
    """Arguments of a call, or its result, are not as :func:`typedbatch.checked` finds them declared.

    ``schema`` is the function, and the paths of problems begin with an argument, ``"logp"``, ``"batch.obs"``; what the
    function returns is called ``"return"``.
    """

    def _lines(self) -> Iterator[list[Part]]:
        of = "what {} returns" if self.problems[0].path.startswith("return") else "what {} is called with"
        head = f"{of.format(self.schema)} is not as declared"
        return lines(self.schema, self.place, self.boundary, self.got, self.problems, head)
