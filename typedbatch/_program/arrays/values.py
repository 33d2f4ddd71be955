"""What is known of a value: arrays with sizes and dtypes, whole numbers, tuples and lists of them. None: nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from typedbatch._program.arrays.sizes import Name, Size, named, number


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an array.

    Attributes:
        size: None if it is not known.
        asked: it is 1 because the code put it there, ``[:, None]``, ``keepdim=True``, so that it broadcasts on purpose.
        step: it is one of the steps of a batch, and never one of features.
        more: it stands for any number of axes, of which nothing is known.
        most: Upper bound of a size that is not known, such as T after ``x[:T]``.
    """

    size: Size | None
    asked: bool = False
    step: bool = False
    more: bool = False
    most: Size | None = None

    @property
    def one(self) -> bool:
        """Is it certain to be 1."""
        return self.size is not None and self.size.number == 1

    def __str__(self) -> str:
        if self.size is None:
            return "..." if self.more else "?"
        return str(self.size)


UNKNOWN = Axis(None)
MORE = Axis(None, more=True)
ASKED = Axis(number(1), asked=True)


@dataclass(frozen=True, slots=True)
class Array:
    """An array or tensor.

    Attributes:
        axes: None if not even their number is known.
        dtypes: names of those that it can have; None if nothing is known.
        torch: a tensor; False for a numpy array.
    """

    axes: tuple[Axis, ...] | None
    dtypes: frozenset[str] | None = None
    torch: bool = False

    @property
    def rank(self) -> int | None:
        """How many axes."""
        return None if self.axes is None else len(self.axes)

    def shaped(self, axes: Sequence[Axis] | None) -> Array:
        """The same with other axes."""
        return replace(self, axes=None if axes is None else tuple(axes))

    def typed(self, dtypes: frozenset[str] | None) -> Array:
        """The same with other dtypes."""
        return replace(self, dtypes=dtypes)

    def __str__(self) -> str:
        return shown(self.axes)


def shown(axes: Sequence[Axis] | None) -> str:
    """As Python writes a shape."""
    if axes is None:
        return "(...)"
    inside = ", ".join(map(str, axes))
    return f"({inside},)" if len(axes) == 1 else f"({inside})"


@dataclass(frozen=True, slots=True)
class Literal:
    """None, a flag, a text, a float, as it stands in the code."""

    value: Any


@dataclass(frozen=True, slots=True)
class Scalar:
    """One of Python's floats or flags, whichever it is."""


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype, as ``torch.float32``."""

    dtypes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Span:
    """A slice: what stands before and behind the colon, and the step; the literal None for what is left out."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or list of which each item is known, or known not to be; as an index, a list picks rows."""

    items: tuple[Value, ...]
    listed: bool = False
    names: tuple[str, ...] = ()
    """Names of the items of a named tuple."""


@dataclass(frozen=True, slots=True)
class Many:
    """A list, or something else to loop over, of items that are alike.

    Attributes:
        item: Any of them.
        count: Number of items; None if it is not known.
    """

    item: Value
    count: Size | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """A batch, or another object, whose fields may be declared.

    Attributes:
        type: mypy's type of it.
        scope: of the names in its declarations.
        sizes: what is known of names; the others are this object's own.
        other: the batch that its rows are of: all names but that of the rows are that one's. None if it is its own.
        reshaped: its fields may have another shape than was declared: it is one row, or sequences that were padded.
        called: it is a call, which says nothing of runs of axes that no argument has.
    """

    type: Any
    scope: int
    sizes: Mapping[str, Size | None] = field(default_factory=dict)
    other: Record | None = None
    reshaped: bool = False
    called: bool = False

    @property
    def root(self) -> Record:
        """The batch that its rows are of, or itself."""
        return self if self.other is None else self.other.root

    def size(self, text: str, rows: str | None) -> Size | None:
        """What a name in the declaration of a field stands for; ``rows`` is the name of the field's first axis."""
        if self.other is not None and text != rows:
            return self.other.size(text, rows)
        return self.sizes[text] if text in self.sizes else named(Name(text, self.scope, declared=True))

    def rank(self, run: str) -> int | None:
        """Return the number of axes of a run with a name, if it is known."""
        size = self.sizes.get(run)
        if size is None and self.other is not None:
            return self.other.rank(run)
        return None if size is None else size.number


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """A module of torch's, or one of a class of the file.

    Attributes:
        call: What a call of it gives.
        owner: The class of the file; None for torch's.
        attributes: What its attributes are.
    """

    call: Operation
    owner: Any = None
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Layers:
    """Modules of torch's that have names, ``ModuleDict``.

    Attributes:
        by_name: those that are known.
    """

    by_name: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of torch's.

    Attributes:
        batch: the shape of the distributions that it is made of.
        event: the shape of what one of these gives.
    """

    batch: tuple[Axis, ...]
    event: tuple[Axis, ...]


class Other:
    """A value that is of no concern to shapes."""

    __slots__ = ()

    def joined(self, other: Any) -> Other:
        """Return what is known of a value that is this one or the other."""
        raise NotImplementedError


Plain: TypeAlias = "Array | Size | Literal | Scalar | DType | Span | Several | Many"
"""Arrays, and what operations on them are called with."""
Value: TypeAlias = "Plain | Record | Layer | Layers | Distribution | Other | None"


class MismatchError(Exception):
    """An operation that cannot be meant, or fails.

    Args:
        text: what does not fit, as people say it.
        dtype: it is about dtypes, not about shapes.
        origin: the line in the function that is called, if it is there.
    """

    def __init__(self, text: str, *, dtype: bool = False, origin: int | None = None) -> None:
        super().__init__(text)
        self.dtype = dtype
        self.origin = origin


@dataclass(frozen=True)
class Arguments:
    """What an operation is called with; the array of a method is the first one.

    Attributes:
        given: by position.
        named: by keyword.
        torch: the function, or the method's array, is torch's.
    """

    given: tuple[Value, ...]
    named: Mapping[str, Value] = field(default_factory=dict)
    torch: bool = False

    def get(self, place: int, *names: str) -> Value:
        """An argument by its place or one of its names; None if it is not given, or nothing is known of it."""
        if 0 <= place < len(self.given):
            return self.given[place]
        return next((self.named[name] for name in names if name in self.named), None)

    def has(self, place: int, *names: str) -> bool:
        """Is it given."""
        return 0 <= place < len(self.given) or any(name in self.named for name in names)

    def array(self, place: int = 0, *names: str) -> Array | None:
        """An argument that is an array."""
        found = self.get(place, *names)
        return found if isinstance(found, Array) else None

    def whole(self, place: int, *names: str) -> int | None:
        """An argument that is a whole number which is known."""
        found = self.get(place, *names)
        return found.number if isinstance(found, Size) else None

    def flag(self, place: int, *names: str) -> bool | None:
        """An argument that is True or False; False if it is not given, None if it is not known which."""
        if not self.has(place, *names):
            return False
        found = self.get(place, *names)
        return found.value if isinstance(found, Literal) and isinstance(found.value, bool) else None


Operation: TypeAlias = Callable[[Arguments], Value]
"""Gives what comes out, None where that is not known; raises :class:`MismatchError` where it certainly fails."""


def is_none(value: Value) -> bool:
    """Is it the literal None."""
    return isinstance(value, Literal) and value.value is None


def axis_at(axes: Sequence[Axis], place: int) -> int | None:
    """The place of an axis counted from the front; None if there is none."""
    at = place + len(axes) if place < 0 else place
    return at if 0 <= at < len(axes) else None


def sizes_of(value: Value) -> tuple[Axis, ...] | None:
    """A shape that is given as a tuple, a list or one number; None if it is not known."""
    if isinstance(value, Size):
        return (Axis(value),)
    if not isinstance(value, Several):
        return None
    return tuple(Axis(item if isinstance(item, Size) else None) for item in value.items)


def join(one: Value, other: Value) -> Value:
    """What is known of a value that is one or the other."""
    if one is other or one == other:
        return one
    if isinstance(one, Other):
        return one.joined(other)
    if isinstance(other, Other):
        return other.joined(one)
    if isinstance(one, Array) and isinstance(other, Array) and one.torch == other.torch:
        axes = None
        if one.axes is not None and other.axes is not None and len(one.axes) == len(other.axes):
            axes = tuple(a if a == b else UNKNOWN for a, b in zip(one.axes, other.axes, strict=True))
        dtypes = None if one.dtypes is None or other.dtypes is None else one.dtypes | other.dtypes
        return Array(axes, dtypes, one.torch)
    if isinstance(one, Several) and isinstance(other, Several) and len(one.items) == len(other.items):
        return Several(tuple(join(a, b) for a, b in zip(one.items, other.items, strict=True)), names=one.names)
    if isinstance(one, Many) and isinstance(other, Many):
        return Many(join(one.item, other.item), one.count if one.count == other.count else None)
    return None


def item_of(value: Value) -> Value:
    """What a loop over a value has each time."""
    if isinstance(value, Array):
        return value.shaped(None if value.axes is None else value.axes[1:])
    if isinstance(value, Many):
        return value.item
    if isinstance(value, Several) and value.items:
        out = value.items[0]
        for item in value.items[1:]:
            out = join(out, item)
        return out
    return None
