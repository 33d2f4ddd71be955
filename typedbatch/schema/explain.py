"""Problems of a batch that does not match its schema, each with its path. Runs only after the check has failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from typedbatch._core import depth, kinds
from typedbatch._core.foreign_batches import bridge_from, full_name
from typedbatch._core.kinds import KINDS, Kind, contradiction, describe, is_placeholder, jagged_shape, leading_shape
from typedbatch._core.lengths import leaves
from typedbatch._core.meta import meta_of
from typedbatch._markers import Steps
from typedbatch._names import nearest
from typedbatch.errors import Code, Problem
from typedbatch.schema import steps
from typedbatch.schema.dims import ROWS, Dim, Several, Sort, broadcast, compute
from typedbatch.schema.dtypes import names_of
from typedbatch.schema.fields import WITH_ROWS, Field, Option, Schema, as_read, holds_objects, is_choice, is_sized
from typedbatch.schema.generate import can_generate
from typedbatch.schema.hints import Proposals
from typedbatch.schema.paths import Argument, Path
from typedbatch.schema.size_conflicts import Size, Votes, conflicts, key_in, show_sizes

_ABSENT, _UNREADABLE = object(), object()
_ODD_CLASS = "its class does not act as it should; does its __init__ call super().__init__()?"
_IN_META = "meta goes with the batch as a whole: batch.meta[...] = ..., or meta= of the constructor"
_OBJECTS = "Ragged[...] declares sequences of different lengths, NDArray[np.object_] or Column[...] objects"
_DETACH = "detach() it, or compute it under torch.no_grad(), since a loss must not change it"
_RESERVED, _SET_IT = "reserved, an empty Batch()", "give it its value before it is checked"

_ONE_ROW = "one row keeps its rows as batch[i:i+1]"
_ITSELF = Path(None, "")
"""The owner in ``_Known.done`` for a batch with sizes of its own: its problems do not depend on where it is."""

Alternatives = dict[tuple[int, int], Option]
"""The alternative of a union that each value matched, by the ids of value and field."""
_Size = tuple[Path, Dim, int]
"""The path of an array, a dimension of it that is computed from others, and its actual size."""


def alternatives_taken(batch: Any, schema: Schema) -> Alternatives:
    """Return the alternative of a union that each value matched, for a batch that matches its schema."""
    walker = Explainer(schema, batch)
    walker.fields(batch, schema, None)
    return walker.known.taken


def find_problems(batch: object, schema: Schema) -> tuple[Problem, ...]:
    """Return every difference between ``batch`` and ``schema``, in the order of the fields; empty if it matches."""
    if KINDS[type(batch)] is not kinds.BATCH:
        bridge = bridge_from(batch)
        expected, got = ("a typedbatch.Batch", f"a {full_name(batch)}") if bridge else ("a Batch", describe(batch))
        hint = f"{bridge}(batch) makes it one" if bridge else ""
        hint = "wrap it: Batch(data)" if not bridge and KINDS[type(batch)] is kinds.MAPPING else hint
        return (Problem("", "TB102 not-a-batch", expected, got, schema.name, hint),)
    walker = Explainer(schema, batch)
    walker.fields(batch, schema, None)
    return (*walker.problems, *conflicts(walker.known.by_name(), schema.name))


@dataclasses.dataclass(slots=True)
class _Known:
    """The facts collected by the walk so far. They are rolled back if an alternative of a union does not match."""

    sizes: dict[str, Size] = dataclasses.field(default_factory=dict)
    """The first size that was seen for each dimension: an alternative of a union must agree with these."""
    votes: dict[tuple[str, Path], Size | None] = dataclasses.field(default_factory=dict)
    """The size of each dimension at each path, or None for an array that has two sizes of it.

    The fields to report are chosen once all votes are in.
    """
    several: dict[str, Several] = dataclasses.field(default_factory=dict)
    """The sizes of each name that stands for any number of dimensions."""
    taken: Alternatives = dataclasses.field(default_factory=dict)
    done: set[tuple[int, int, Path | None]] = dataclasses.field(default_factory=set)
    """The batches already walked: the ids of their fields and schema, and the batch that owns the sizes in them."""

    def copy(self) -> _Known:
        return _Known({**self.sizes}, {**self.votes}, {**self.several}, {**self.taken}, {*self.done})

    def disputed(self, names: Collection[str]) -> bool:
        """Return True if fields disagree on the size of any of these dimensions."""
        return any(name in names and size != self.sizes[name] for (name, _), size in self.votes.items())

    def by_name(self) -> Votes:
        """Return the votes grouped by dimension."""
        votes: Votes = {}
        for (name, path), size in self.votes.items():
            if size is not None:
                votes.setdefault(name, {})[path] = size
        return votes


class _MismatchError(Exception):
    """A value does not match the alternative of a union that is being tried."""


class Explainer:
    """A walk over a batch and its schema, ``root``, which collects all problems."""

    def __init__(self, root: Schema, batch: Any, proposals: Proposals | None = None) -> None:
        self.root: str = root.name
        self.proposals: Proposals = proposals or Proposals(root, batch)
        self.problems: list[Problem] = []
        self.known: _Known = _Known()
        self.owner: Path | None = None
        """The innermost batch with sizes of its own that the walk is in, or None."""
        self.trying: bool = False
        """Whether an alternative of a union is being tried. The first problem then ends the attempt."""
        self.property_values: list[Any] = []
        """The values of properties, kept alive because facts are stored by id, and a dead object's id is reused."""
        self.shares: bool = not can_generate(root)
        """Whether batches already walked are skipped. Only in a schema that nests itself can one be met very often."""

    def report(self, path: Path | str | None, code: Code, expected: str, got: str, hint: str = "") -> None:
        if self.trying:
            raise _MismatchError
        self.problems.append(Problem("" if path is None else str(path), code, expected, got, self.root, hint))

    def fields(self, batch: Any, schema: Schema, outer: Path | None) -> None:
        """Check all declared fields of a batch."""
        if outer is not None and self.is_too_deep(outer):
            return
        fields = batch.__dict__
        done = id(fields), id(schema), self.owner
        if self.shares and done in self.known.done:
            return
        computed: list[_Size] = []
        spare = _Spare(fields, schema)
        from_properties = schema.computed[type(batch)]
        sound: dict[str, Any] = {}
        for field in schema.fields:
            path, before = Path(outer, field.name), len(self.problems)
            value = fields.get(field.name, _ABSENT)
            if field.name in from_properties:
                value = _UNREADABLE
                with self.readable(path, f"{field.name} is a property of {type(batch).__name__}"):
                    value = getattr(batch, field.name)
                    self.property_values.append(value)
            if value is _UNREADABLE:
                continue
            if value is not _ABSENT:
                self.value(value, field, path, computed)
                if field.steps is Steps.ONE or (field.steps is Steps.FIRST and len(self.problems) == before):
                    sound[field.name] = value
            elif not field.optional:
                hint = "" if self.trying else spare.hint(field)
                self.report(path, "TB101 missing-field", field.expects(), "missing", hint)
        if schema.meta is not None:
            for where, code, expected, got in schema.meta.mismatches(meta_of(batch), "meta"):
                hint = _IN_META if code[:5] == "TB101" else ""
                self.report(where if outer is None else f"{outer}.{where}", code, expected, got, hint)
        for name, expected, got, hint in steps.problems(sound, schema):
            self.report(name if outer is None else f"{outer}.{name}", "TB303 wrong-shape", expected, got, hint)
        self.computed(computed)
        self.known.done.add(done)

    def arguments(self, values: Mapping[str, Any], schema: Schema) -> None:
        """Check the arguments of a call, by the names of the schema's fields."""
        computed: list[_Size] = []
        for field in schema.fields:
            self.value(values[field.name], field, Argument(field.name), computed)
        self.computed(computed)

    def knows(self, sizes: Iterable[tuple[str, Any]], path: Path) -> None:
        """Record sizes that are known before the walk, as pairs of key and size."""
        for key, size in sizes:
            if isinstance(size, tuple):
                self.known.several[key] = size
                size = None if size[0] else size[1]
            if size is not None:
                self.size(key, size, path)

    def with_own_sizes(self, batch: Any, schema: Schema, path: Path) -> None:
        """Check a nested batch whose named sizes, other than the rows, are local to it."""
        done = id(batch.__dict__), id(schema), _ITSELF
        if self.shares and done in self.known.done:
            return
        outer, self.owner = self.owner, path
        try:
            self.fields(batch, schema, path)
        finally:
            self.owner = outer
        self.known.done.add(done)

    def key(self, name: str) -> str:
        """Return the key for the size of this name at the current position of the walk."""
        return name if self.owner is None or name == ROWS else key_in(self.owner, name)

    def is_too_deep(self, path: Path) -> bool:
        if path.depth <= depth.DEEPEST:
            return False
        self.report(path, "TB104 endless-nesting", "", depth.SAYS, depth.HINT)
        return True

    @contextmanager
    def readable(self, path: Path, hint: str = _ODD_CLASS) -> Generator[None]:
        """Report any error that a property, or a value of a foreign class, raises inside the block."""
        try:
            yield
        except _MismatchError:
            raise
        except Exception as error:  # noqa: BLE001  # it is the user's own code
            self.unreadable(path, error, hint)

    def unreadable(self, path: Path, error: Exception, hint: str = _ODD_CLASS) -> None:
        self.report(path, "TB105 unreadable-field", "", f"raises {type(error).__name__} when it is looked at", hint)

    def value(self, value: Any, field: Field, path: Path, computed: list[_Size]) -> None:
        """Check the value of a field: choose the alternative, then report what is wrong with it."""
        kind = _kind(value)
        options = [option for option in field.options if option.kind is kind]
        try:  # This is self.readable(), which would cost half as much again as the check of an array.
            if not field.options:
                self.anything(value, path)
            elif not options:
                self.wrong_kind(value, field, path)
            elif len(options) == 1:
                self.option(options[0], value, path, computed)
            else:
                self.one_of(options, value, field, path)
        except _MismatchError:
            raise
        except Exception as error:  # noqa: BLE001  # it is the user's own code
            self.unreadable(path, error)

    def one_of(self, options: list[Option], value: Any, field: Field, path: Path) -> None:
        """Take the first alternative that matches, or report the problems of the closest one if none does."""
        for option in options:
            if self.fits(option, value, path):
                self.known.taken[id(value), id(field)] = option
                return
        if self.trying:  # already failed; explaining here is exponential in depth
            raise _MismatchError
        self.settled(min(options, key=lambda option: distance(option, value)), value, path)

    def fits(self, option: Option, value: Any, path: Path) -> bool:
        """Return whether a value matches an alternative. Facts about the value are recorded only if it does."""
        if option.kind is kinds.BATCH and distance(option, value):  # the names of its fields rule it out already
            return False
        before, outer = self.known.copy(), self.trying
        self.trying = True
        try:
            with self.readable(path):
                self.settled(option, value, path)
        except _MismatchError:
            self.known = before
            return False
        finally:
            self.trying = outer
        return True

    def settled(self, option: Option, value: Any, path: Path) -> None:
        """Check a value, and the computed sizes in it, against an option of its kind."""
        computed: list[_Size] = []
        self.option(option, value, path, computed)
        self.computed(computed)

    def option(self, option: Option, value: Any, path: Path, computed: list[_Size]) -> None:
        """Check a value against an option of its kind. Sizes to be computed later are added to ``computed``."""
        if option.cls is not None and not isinstance(value, option.cls):
            self.report(path, "TB202 wrong-kind", str(option), describe(value))
        elif option.choices and not leading_shape(value) and not is_choice(value, option.choices):
            self.report(path, "TB203 wrong-choice", str(option), f"{describe(value)} of another value")
        elif option.kind is kinds.BATCH:
            self.batch(option, value, path)
        elif option.kind is kinds.RAGGED:
            self.shape(option, value, path, computed)
            self.sequences(option, value, path)
        elif option.kind is kinds.OBJECT and is_sized(option.cls):
            len(value)  # if it raises, ``readable`` reports the error
        elif says := contradiction(value):
            self.report(path, "TB105 unreadable-field", "", says, _ODD_CLASS)
        elif option.has_shape:
            if option.dtypes is not None and not option.dtypes[value.dtype]:
                has = f"dtype {names_of(value.dtype)[-1]}"
                self.report(path, "TB201 wrong-dtype", option.dtypes.words, has, self.proposals.cast(option, path))
            if option.no_objects and holds_objects(value):
                self.report(path, "TB201 wrong-dtype", "numbers or text", "dtype object", _OBJECTS)
            if option.no_gradient and value.requires_grad:
                got = f"{describe(value)} that requires a gradient"
                self.report(path, "TB204 unwanted-gradient", "a tensor without a gradient", got, _DETACH)
            self.shape(option, value, path, computed)

    def batch(self, option: Option, value: Any, path: Path) -> None:
        if option.schema is not None and is_placeholder(value) and not option.schema.may_be_empty():
            self.report(path, "TB103 reserved-field", str(option), _RESERVED, _SET_IT)
        elif option.schema is not None and option.own_sizes:
            self.with_own_sizes(value, option.schema, path)
        elif option.schema is not None:
            self.fields(value, option.schema, path)
        elif option.each is not None:
            for name, leaf in value.__dict__.items():
                inner: list[_Size] = []
                self.value(leaf, option.each, Path(path, name), inner)
                self.computed(inner)
        else:
            self.anything(value, path)

    def sequences(self, option: Option, ragged: Any, path: Path) -> None:
        """Check the values of a Ragged: their number of rows is the sum of the lengths, and their sizes are local."""
        where, rows = Path(path, "values"), int(ragged.sizes.sum())
        if option.schema is not None:
            inner = Explainer(option.schema, ragged.values)
            inner.root, inner.proposals, inner.trying = self.root, self.proposals, self.trying
            inner.fields(ragged.values, option.schema, where)
            found = (*inner.problems, *conflicts(inner.known.by_name(), self.root))
            self.known.taken.update(inner.known.taken)
            self.problems += found
            if found:
                return
        for name, leaf in leaves(ragged.values.__dict__):
            if (shape := leading_shape(leaf)) and shape[0] != rows:
                says = f"{shape[0]} rows here, where the lengths sum up to {rows}"
                self.report(Path(where, name), "TB302 dimension-conflict", "", says)

    def anything(self, value: Any, path: Path) -> None:
        """Check a value with no declaration: anything in it that has rows must have the common number of rows."""
        if KINDS[type(value)] is kinds.BATCH:
            self.inside(value.__dict__, path, set())
        else:
            self.row_count(value, path)

    def inside(self, fields: Mapping[str, Any], path: Path, done: set[int]) -> None:
        """Check the leaves of a batch with no declaration. A nested batch that occurs several times is checked once."""
        if id(fields) in done or self.is_too_deep(path):
            return
        for name, leaf in fields.items():
            where = Path(path, name)
            if KINDS[type(leaf)] is kinds.BATCH:
                self.inside(leaf.__dict__, where, done)
            else:
                with self.readable(where):
                    self.row_count(leaf, where)
        done.add(id(fields))

    def row_count(self, leaf: Any, path: Path) -> None:
        shape = leading_shape(leaf)
        if shape:
            if says := contradiction(leaf):
                self.report(path, "TB105 unreadable-field", "", says, _ODD_CLASS)
            self.size(ROWS, shape[0], path)

    def wrong_kind(self, value: Any, field: Field, path: Path) -> None:
        if is_placeholder(value):
            self.report(path, "TB103 reserved-field", field.expects(), _RESERVED, _SET_IT)
            return
        hint = "" if self.trying else self.proposals.hint(value, field, path)
        self.report(path, "TB202 wrong-kind", field.expects(), describe(value), hint)
        if any(option.shape == WITH_ROWS for option in field.options if option.has_shape):
            self.row_count(value, path)

    def shape(self, option: Option, value: Any, path: Path, computed: list[_Size]) -> None:
        """Check the sizes of an array, a tensor, a distribution or a Ragged."""
        jagged = option.kind is kinds.TENSOR and value.is_nested
        sizes, shape = jagged_shape(value) if jagged else leading_shape(value), option.shape
        if not shape.has_rank(len(sizes)):
            if shape == WITH_ROWS:
                self.report(path, "TB301 no-rows", "one value per row", f"a scalar {describe(value)}", _ONE_ROW)
            else:
                what = "a number" if not shape.dims else f"shape {shape}"
                hint = _ONE_ROW if shape.before and shape.before[0].text == ROWS and not sizes else ""
                self.report(path, "TB303 wrong-shape", what, f"shape {show_sizes(sizes)}", hint)
            return
        after = len(sizes) - len(shape.after)
        wrong = False
        for dim, size in [*zip(shape.before, sizes, strict=False), *zip(shape.after, sizes[after:], strict=True)]:
            if dim.broadcasts and size == 1:
                continue
            if dim.sort is Sort.NAMED:
                self.size(dim.text, size, path)
            elif dim.sort is Sort.FIXED:
                wrong |= size != dim.size
            elif dim.sort is Sort.COMPUTED:
                computed.append((path, dim, size))
        if wrong:
            self.report(path, "TB303 wrong-shape", f"shape {shape}", f"shape {show_sizes(sizes)}")
        if shape.variadic is not None and shape.dims[shape.variadic].sort is Sort.SOME:
            self.several_sizes(shape.dims[shape.variadic], sizes[len(shape.before) : after], path)

    def size(self, name: str, size: Size, path: Path) -> None:
        """Record the size of a named dimension at ``path``.

        A conflict between fields ends the attempt inside a union, and is otherwise reported after the walk.
        """
        key = self.key(name)
        if self.known.sizes.setdefault(key, size) != size and self.trying:
            raise _MismatchError
        other = self.known.votes.setdefault((key, path), size)
        if other is not None and other != size:
            self.known.votes[key, path] = None
            self.report(path, "TB302 dimension-conflict", "", f"{name} is both {other} and {size} here")

    def several_sizes(self, dim: Dim, sizes: tuple[int, ...], path: Path) -> None:
        key = self.key(dim.key)
        known = self.known.several.get(key)
        if not dim.broadcasts and (known is None or not known[0]):
            self.known.several[key] = known or (False, sizes)
            self.size(dim.key, sizes, path)
            return
        now = broadcast(known, sizes, dim.broadcasts)
        if now is None:
            before = "other sizes" if known is None else show_sizes(known[1])
            got = f"{dim} is {show_sizes(sizes)} here, but {before} in the fields before"
            self.report(path, "TB302 dimension-conflict", "", got)
            return
        self.known.several[key] = now
        if not dim.broadcasts:
            self.size(dim.key, sizes, path)

    def computed(self, computed: list[_Size]) -> None:
        """Check the sizes that are computed from others, after those are known."""
        for path, dim, size in computed:
            keys = {name: self.key(name) for name in dim.names}
            known = {name: self.known.sizes.get(key) for name, key in keys.items()}
            sizes = {name: size for name, size in known.items() if isinstance(size, int)}
            wanted = compute(dim.text, sizes)
            if wanted is not None and wanted != size and (self.trying or not self.known.disputed(keys.values())):
                given = ", ".join(f"{name} is {sizes[name]}" for name in dim.names)
                expected = f"{dim.text} = {str(wanted)[:20]}" if wanted >= 0 else f"{dim.text}, which is not a size"
                expected += f", as {given}" if given else ""
                self.report(path, "TB304 wrong-size", expected, f"a size of {size}")


class _Spare:
    """The undeclared fields of a batch, one of which may be a misspelled declared field."""

    def __init__(self, fields: Mapping[str, Any], schema: Schema) -> None:
        self.fields, self.schema = fields, schema
        self.names: list[str] | None = None

    def hint(self, field: Field) -> str:
        """Return the hint for a missing field: a similar name in the batch, and where the field is declared."""
        if self.names is None:
            declared = {field.name for field in self.schema.fields}
            self.names = [name for name in self.fields if name not in declared]
            missing = sum(field.name not in self.fields for field in self.schema.fields)
            if len(self.names) * missing > 2500:  # comparing every pair of names would take seconds
                self.names = []
        near = nearest(field.name, self.names)
        where = f"declared in {field.declared_in.rpartition('.')[2]}, {field.place}" if field.place else ""
        where = where or f"declared in {field.declared_in}"
        return f"did you mean {near!r}?  ({where})" if near else where


def _kind(value: Any) -> Kind:
    """Return the kind of a value. The numpy scalar of a single row counts as an array."""
    kind = KINDS[type(value)]
    return kinds.ARRAY if kind is kinds.SCALAR else kind


def distance(option: Option, value: Any) -> int:
    """Return how many differences between an alternative and a value are visible without looking at sizes.

    They are the names and kinds of fields for a batch, dtype and rank for an array, and the class for anything else.
    """
    if option.kind is kinds.BATCH and option.schema is not None:
        fields = as_read(value, option.schema.computed[type(value)])
        return sum(
            not field.optional
            if field.name not in fields
            else field.kinds is not None and _kind(fields[field.name]) not in field.kinds
            for field in option.schema.fields
        )
    if option.kind in (kinds.ARRAY, kinds.TENSOR):
        wrong_dtype = option.dtypes is not None and not option.dtypes[value.dtype]
        wrong_dtype |= option.no_objects and holds_objects(value)
        return wrong_dtype + (not option.shape.has_rank(len(value.shape)))
    return int(option.cls is not None and not isinstance(value, option.cls))
