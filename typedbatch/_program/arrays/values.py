"""Abstract values: arrays with sizes and dtypes, whole numbers, tuples and lists of them; None if nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from typedbatch._program.arrays.sizes import Name, Size, named, number


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an array.

    Attributes:
        size: Number of its elements, or None if it is not known.
        asked: Whether the code inserted an axis of size 1, as ``[:, None]`` or ``keepdim=True`` does, to be broadcast.
        step: Whether it is an axis of the steps of a batch, and never one of features.
        more: Whether it stands for any number of axes, of which nothing is known.
        most: Upper bound of a size that is not known, such as T after ``x[:T]``.
    """

    size: Size | None
    asked: bool = False
    step: bool = False
    more: bool = False
    most: Size | None = None

    @property
    def one(self) -> bool:
        """Whether the size is known to be 1."""
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
        axes: Its axes, or None if not even their number is known.
        dtypes: Names of the dtypes that it may have, or None if nothing is known.
        torch: Whether it is a tensor rather than a numpy array.
    """

    axes: tuple[Axis, ...] | None
    dtypes: frozenset[str] | None = None
    torch: bool = False

    @property
    def rank(self) -> int | None:
        """Number of axes, or None if it is not known."""
        return None if self.axes is None else len(self.axes)

    def shaped(self, axes: Sequence[Axis] | None) -> Array:
        """Return the same array with other axes."""
        return replace(self, axes=None if axes is None else tuple(axes))

    def typed(self, dtypes: frozenset[str] | None) -> Array:
        """Return the same array with other dtypes."""
        return replace(self, dtypes=dtypes)

    def __str__(self) -> str:
        return shown(self.axes)


def shown(axes: Sequence[Axis] | None) -> str:
    """Return a shape as Python writes it."""
    if axes is None:
        return "(...)"
    inside = ", ".join(map(str, axes))
    return f"({inside},)" if len(axes) == 1 else f"({inside})"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of the code: None, a flag, a text or a float."""

    value: Any


@dataclass(frozen=True, slots=True)
class Scalar:
    """A float or flag of Python whose value is not known."""


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype, as ``torch.float32``."""

    dtypes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Span:
    """A slice: its start, stop and step, where the literal None stands for one that is left out."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or list of a known length; its items may be unknown. As an index, a list picks rows."""

    items: tuple[Value, ...]
    listed: bool = False
    names: tuple[str, ...] = ()
    """Names of the items of a named tuple."""


@dataclass(frozen=True, slots=True)
class Many:
    """A list, or another iterable, of items that are alike.

    Attributes:
        item: Any of the items.
        count: Number of items; None if it is not known.
    """

    item: Value
    count: Size | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """A batch, or another object, whose fields may be declared.

    Attributes:
        scope: Scope of the names in its declarations.
        sizes: Sizes that are known of names; other names are sizes of this object alone.
        called: Whether it is a call, of which only the runs of axes that an argument has are known.
    """

    scope: int
    sizes: Mapping[str, Size | None] = field(default_factory=dict)
    called: bool = False

    def size(self, text: str) -> Size | None:
        """Return the size of a name in the declaration of a field."""
        return self.sizes[text] if text in self.sizes else named(Name(text, self.scope, declared=True))

    def rank(self, run: str) -> int | None:
        """Return the number of axes of a named run, or None if it is not known."""
        size = self.sizes.get(run)
        return None if size is None else size.number


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """A module of torch, or of a class of the file.

    Attributes:
        call: Operation of a call of the module.
        owner: The class of the file, or None for a class of torch.
        attributes: Values of its attributes.
    """

    call: Operation
    owner: Any = None
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Layers:
    """Named modules of torch, as in ``ModuleDict``.

    Attributes:
        by_name: The modules whose names are known.
    """

    by_name: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of torch.

    Attributes:
        batch: Its ``batch_shape``.
        event: Its ``event_shape``.
    """

    batch: tuple[Axis, ...]
    event: tuple[Axis, ...]


Plain: TypeAlias = "Array | Size | Literal | Scalar | DType | Span | Several | Many"
"""Arrays, and the arguments of operations on them."""
Value: TypeAlias = "Plain | Record | Layer | Layers | Distribution | None"


class MismatchError(Exception):
    """An operation that fails, or that has a result nobody can have meant.

    Args:
        text: The mismatch.
        dtype: Whether it is a mismatch of dtypes, not of shapes.
    """

    def __init__(self, text: str, *, dtype: bool = False) -> None:
        super().__init__(text)
        self.dtype = dtype


@dataclass(frozen=True)
class Arguments:
    """Arguments of an operation; the array of a method is the first one.

    Attributes:
        given: Arguments by position.
        named: Arguments by keyword.
        torch: Whether the function, or the array of the method, is of torch.
    """

    given: tuple[Value, ...]
    named: Mapping[str, Value] = field(default_factory=dict)
    torch: bool = False

    def get(self, place: int, *names: str) -> Value:
        """Return an argument by its position or one of its names, or None if it is not given or not known."""
        if 0 <= place < len(self.given):
            return self.given[place]
        return next((self.named[name] for name in names if name in self.named), None)

    def has(self, place: int, *names: str) -> bool:
        """Return whether an argument is given."""
        return 0 <= place < len(self.given) or any(name in self.named for name in names)

    def array(self, place: int = 0, *names: str) -> Array | None:
        """Return an argument if it is an array, or None."""
        found = self.get(place, *names)
        return found if isinstance(found, Array) else None

    def whole(self, place: int, *names: str) -> int | None:
        """Return an argument if it is a known whole number, or None."""
        found = self.get(place, *names)
        return found.number if isinstance(found, Size) else None

    def flag(self, place: int, *names: str) -> bool | None:
        """Return an argument that is True or False: False if it is not given, None if it is not known."""
        if not self.has(place, *names):
            return False
        found = self.get(place, *names)
        return found.value if isinstance(found, Literal) and isinstance(found.value, bool) else None


Operation: TypeAlias = Callable[[Arguments], Value]
"""Return the result, or None if it is not known; raise :class:`MismatchError` if the operation certainly fails."""


def is_none(value: Value) -> bool:
    """Return whether a value is the literal None."""
    return isinstance(value, Literal) and value.value is None


def axis_at(axes: Sequence[Axis], place: int) -> int | None:
    """Return the index of an axis counted from the front, or None if it is out of range."""
    at = place + len(axes) if place < 0 else place
    return at if 0 <= at < len(axes) else None


def sizes_of(value: Value) -> tuple[Axis, ...] | None:
    """Return the axes of a shape that is given as a tuple, a list or one number, or None if it is not known."""
    if isinstance(value, Size):
        return (Axis(value),)
    if not isinstance(value, Several):
        return None
    return tuple(Axis(item if isinstance(item, Size) else None) for item in value.items)


def join(one: Value, other: Value) -> Value:
    """Return what is known of a value that is one of two."""
    if one is other or one == other:
        return one
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
    """Return the item that a loop over a value has in each round."""
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


def named_part(value: Several, name: str) -> Value:
    """Return an item of a named tuple, or of the pair of values and indices that an operation returned."""
    if name in value.names:
        return value.items[value.names.index(name)]
    at = {"values": 0, "indices": 1}.get(name)
    return value.items[at] if at is not None and len(value.items) == 2 else None


def item_at(value: Several, index: Value) -> Value:
    """Return the item of a tuple at a position, or the tuple of those of a slice; None if that is not known."""
    if isinstance(index, Size):
        at = index.number
        return value.items[at] if at is not None and -len(value.items) <= at < len(value.items) else None
    bounds = bounds_of(index) if isinstance(index, Span) else None
    return None if bounds is None else Several(value.items[bounds], value.listed)


def bounds_of(span: Span) -> slice | None:
    """Return a slice whose bounds are known, or None."""
    parts: list[int | None] = []
    for part in (span.start, span.stop, span.step):
        if not is_none(part) and (not isinstance(part, Size) or part.number is None):
            return None
        parts.append(part.number if isinstance(part, Size) else None)
    return None if parts[2] == 0 else slice(*parts)


def names_of(value: Value) -> Iterator[Name]:
    """Yield the names of all sizes in a value."""
    if isinstance(value, Size):
        yield from value.names()
    elif isinstance(value, Array):
        for axis in value.axes or ():
            yield from names_of(axis.size)
    elif isinstance(value, Several):
        for item in value.items:
            yield from names_of(item)
    elif isinstance(value, Many):
        yield from names_of(value.item)


def without(value: Value, names: Set[Name]) -> Value:
    """Return a value in which sizes of some names are not known."""
    if isinstance(value, Size):
        return None if value.names() & names else value
    if isinstance(value, Array) and value.axes is not None:
        axes = [UNKNOWN if axis.size is not None and axis.size.names() & names else axis for axis in value.axes]
        return value.shaped(axes)
    if isinstance(value, Several):
        return replace(value, items=tuple(without(item, names) for item in value.items))
    if isinstance(value, Many):
        return replace(value, item=without(value.item, names))
    if isinstance(value, Record) and any(name.scope == value.scope for name in names):
        return None
    return value


def each(item: Value) -> Value:
    """Return an item of many: sizes with names are those of each, and may differ."""
    if isinstance(item, Array) and item.axes is not None:
        return item.shaped(
            [axis if axis.size is None or axis.size.number is not None else UNKNOWN for axis in item.axes]
        )
    return item


def filled_in(value: Array, said: Array) -> Array:
    """Return an array with the sizes that only its declaration knows."""
    if value.axes is None or said.axes is None or len(value.axes) != len(said.axes):
        return value
    return value.shaped([two if one.size is None else one for one, two in zip(value.axes, said.axes, strict=True)])
