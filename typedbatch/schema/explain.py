"""Why a batch does not match: every problem, each with its path. Runs after a "no"."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from typedbatch._signals import from_outside
from typedbatch._strangers import bridge_from, full_name
from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    KINDS,
    MAPPING,
    OBJECT,
    SCALAR,
    TENSOR,
    Kind,
    contradiction,
    describe,
    is_reserved,
    leading_shape,
)
from typedbatch.errors import Code, Problem
from typedbatch.naming import counterpart
from typedbatch.schema.blame import Size, conflicts, show_sizes
from typedbatch.schema.dims import ROWS, Dim, Sort, broadcast, compute
from typedbatch.schema.dtypes import names_of
from typedbatch.schema.fields import NO_DIMS, WITH_ROWS, Field, Option, Schema, is_choice, is_sized
from typedbatch.schema.generate import can_generate
from typedbatch.schema.names import Path
from typedbatch.schema.proposals import Proposals
from typedbatch.schema.reading import as_read, computed_in
from typedbatch.schema.walk import Attempt, Judgement, Known, Reading, Walk, problems_of

_ABSENT, _UNREADABLE = object(), object()
_WHATEVER = "whatever the sizes"
_ABOUT_SIZES = ("TB302 dimension-conflict", "TB304 wrong-size")
_HOLDS_ITSELF = "holds itself, so its nesting has no end"
_ODD_CLASS = "its class does not act as it should; does its __init__ call super().__init__()?"
_RESERVED, _SET_IT = "reserved, an empty Batch()", "give it its value before it is checked"


def choices(batch: Any, schema: Schema) -> dict[tuple[int, int], Option]:
    """Which alternative each value of a union is, in a batch that matches, by the ids of value and field."""
    walker = _Walker(schema, batch)
    problems_of(walker.fields(batch, schema, None), walker.known)
    return walker.known.choices


def find_problems(batch: object, schema: Schema) -> tuple[Problem, ...]:
    """Every way in which ``batch`` differs from ``schema``, in the order of the fields; empty when it matches."""
    if KINDS[type(batch)] is not BATCH:
        return (_not_a_batch(batch, schema),)
    walker = _Walker(schema, batch)
    problems = problems_of(walker.fields(batch, schema, None), walker.known)
    return (*problems, *conflicts(walker.known.by_name(), schema.name))


_Size = tuple[Path, Dim, int]
"""A size that is computed from others, and what it is."""


def _not_a_batch(given: object, schema: Schema) -> Problem:
    bridge = bridge_from(given)
    if bridge:
        expected, hint = "a typedbatch.Batch", f"{bridge}(batch) makes it one"
        return Problem("", "TB102 not-a-batch", expected, f"a {full_name(given)}", schema.name, hint)
    hint = "wrap it: Batch(data)" if KINDS[type(given)] is MAPPING else ""
    return Problem("", "TB102 not-a-batch", "a Batch", describe(given), schema.name, hint)


class _Walker:
    """Walks a batch beside a schema, ``root``."""

    def __init__(self, root: Schema, batch: Any) -> None:
        self.root, self.proposals = root.name, Proposals(root, batch)
        self.known = Known()
        self.answers: dict[tuple[int, int, Hashable], bool] = {}
        """Whether a value is an alternative of a union, at the sizes that were known then, or whatever they are."""
        self.outer: set[tuple[int, int]] = set()
        self.kept: list[Any] = []
        """What properties gave: what is known of a value is known by its id, which must not become another's."""
        self.shares = not can_generate(root)
        """A batch that is met again is not gone through again; only where the schema nests itself can it be often."""

    def fields(self, batch: Any, schema: Schema, path: Path | None) -> Walk:
        """All declared fields of one batch."""
        key = id(batch.__dict__), id(schema)
        if key in self.outer:
            yield self.problem(path, "TB104 endless-nesting", "", _HOLDS_ITSELF)
            return
        if key in self.known.done:
            return
        self.outer.add(key)
        try:
            yield from self.each_field(batch, schema, path)
        finally:
            self.outer.remove(key)
        if self.shares:
            self.known.set(self.known.done, key, True)

    def each_field(self, batch: Any, schema: Schema, outer: Path | None) -> Walk:
        computed: list[_Size] = []
        fields = batch.__dict__
        spare = _Spare(fields, schema)
        from_properties = computed_in(schema)[type(batch)]
        for field in schema.fields:
            path = Path(outer, field.name)
            value = fields.get(field.name, _ABSENT)
            if field.name in from_properties:
                value = yield from self.property(batch, field, path)
            if value is _UNREADABLE:
                continue
            if value is not _ABSENT:
                if not self.plainly_right(value, field, path):
                    yield from self.readable(self.value(value, field, path, computed), path)
            elif not field.optional:
                yield self.problem(path, "TB101 missing-field", field.expects(), "missing", spare.hint(field))
        yield from self.computed(computed)

    def property(self, batch: Any, field: Field, path: Path) -> Reading:
        """What a property of the batch's class gives in place of a field."""
        try:
            value = getattr(batch, field.name)
        except Exception as error:  # it is the user's own code
            if from_outside(error):
                raise
            says, hint = _raises(error), f"{field.name} is a property of {type(batch).__name__}"
            yield self.problem(path, "TB105 unreadable-field", "", says, hint)
            return _UNREADABLE
        self.kept.append(value)
        return value

    def plainly_right(self, value: Any, field: Field, path: Path) -> bool:
        """True for an array or tensor as it should be. Most are, and the long way takes longer."""
        option = field.options[0] if len(field.options) == 1 else None
        if option is None or not option.is_plain or KINDS[type(value)] is not option.kind:
            return False
        try:
            if (option.dtypes is not None and not option.dtypes[value.dtype]) or contradiction(value):
                return False
            sizes = value.shape
            if not option.shape.has_rank(len(sizes)):
                return False
            for dim, size in zip(option.shape.before, sizes, strict=False):
                if dim.sort is Sort.NAMED:
                    if self.size(dim.text, size, path) is not None:
                        return False
                elif dim.sort is Sort.FIXED and size != dim.size:
                    return False
        except Exception as error:  # the long way says what it raised
            if from_outside(error):
                raise
            return False
        return True

    def readable(self, walk: Walk, path: Path) -> Walk:
        """A walk that reports what a value of a foreign class raises when it is looked at."""
        try:
            yield from walk
        except Exception as error:  # a property of the value may raise anything
            if from_outside(error):
                raise
            yield self.problem(path, "TB105 unreadable-field", "", _raises(error), _ODD_CLASS)

    def value(self, value: Any, field: Field, path: Path, computed: list[_Size]) -> Walk:
        """One field: which alternative it is, and what is wrong with it then."""
        kind = _kind(value)
        options = [option for option in field.options if option.kind is kind]
        if not field.options:
            yield from self.anything(value, path)
        elif not options:
            yield from self.wrong_kind(value, field, path)
        elif len(options) == 1:
            yield from self.option(options[0], value, path, computed)
        else:
            yield from self.one_of(options, value, field, path)

    def one_of(self, options: list[Option], value: Any, field: Field, path: Path) -> Walk:
        """The first alternative of its kind that fits; if none does, the closest is explained."""
        mark, state = len(self.known.undo), self.known.state()
        for option in options:
            key = id(value), id(option)
            fits = self.answers.get((*key, state), self.answers.get((*key, _WHATEVER)))
            if fits is None:
                fits = yield from self.attempt(option, value, path, state)
            if fits:
                self.known.set(self.known.choices, (id(value), id(field)), option)
                return
            self.known.back_to(mark)
        if self.known.trying:  # it is a no already; to explain it would take twice as long at each level
            never = all((id(value), id(option), _WHATEVER) in self.answers for option in options)
            yield self.problem(path, "TB202 wrong-kind" if never else "TB302 dimension-conflict", "", "")
            return
        yield from self.settled(min(options, key=lambda option: distance(option, value)), value, path)

    def attempt(self, option: Option, value: Any, path: Path, state: Hashable) -> Judgement:
        """Whether a value is that alternative; remembered, since in deep unions the same is asked again and again."""
        key = id(value), id(option)
        if option.kind is BATCH and distance(option, value):  # that can be seen without going inside
            self.answers[*key, _WHATEVER] = False
            return False
        problem = yield Attempt(self.readable(self.settled(option, value, path), path))
        if problem is not None and problem.code not in _ABOUT_SIZES:
            self.answers[*key, _WHATEVER] = False
        elif problem is not None or self.known.state() == state:  # a yes that made sizes known is asked again
            self.answers[*key, state] = problem is None
        return problem is None

    def settled(self, option: Option, value: Any, path: Path) -> Walk:
        computed: list[_Size] = []
        yield from self.option(option, value, path, computed)
        yield from self.computed(computed)

    def option(self, option: Option, value: Any, path: Path, computed: list[_Size]) -> Walk:
        """A value of the option's kind."""
        if option.cls is not None and not isinstance(value, option.cls):
            yield self.problem(path, "TB202 wrong-kind", str(option), describe(value))
        elif option.choices and not leading_shape(value) and not is_choice(value, option.choices):
            yield self.problem(path, "TB203 wrong-choice", str(option), f"{describe(value)} of another value")
        elif option.kind is BATCH:
            yield from self.batch(option, value, path)
        elif option.kind is OBJECT and is_sized(option.cls):
            len(value)  # what it raises is reported
        elif says := contradiction(value):
            yield self.problem(path, "TB105 unreadable-field", "", says, _ODD_CLASS)
        elif option.kind in (ARRAY, TENSOR, DISTRIBUTION):
            if option.dtypes is not None and not option.dtypes[value.dtype]:
                has = f"dtype {names_of(value.dtype)[-1]}"
                yield self.problem(path, "TB201 wrong-dtype", option.dtypes.words, has, _cast(option, path))
            yield from self.shape(option, value, path, computed)

    def batch(self, option: Option, value: Any, path: Path) -> Walk:
        if option.schema is not None and is_reserved(value) and not option.schema.may_be_empty():
            yield self.problem(path, "TB103 reserved-field", str(option), _RESERVED, _SET_IT)
        elif option.schema is not None:
            yield self.fields(value, option.schema, path)
        elif option.each is not None:
            for name, leaf in value.__dict__.items():
                inner: list[_Size] = []
                where = Path(path, name)
                yield from self.readable(self.value(leaf, option.each, where, inner), where)
                yield from self.computed(inner)
        else:
            yield from self.anything(value, path)

    def anything(self, value: Any, path: Path) -> Walk:
        """A value of which nothing is declared: what has rows in it has the rows that all have."""
        if KINDS[type(value)] is not BATCH:
            yield from self.row_count(value, path)
            return
        yield self.inside(value.__dict__, path, set(), set())

    def inside(self, fields: Mapping[str, Any], path: Path, outer: set[int], done: set[int]) -> Walk:
        """The leaves of a batch of which nothing is declared; one that is in several places is looked at once."""
        outer.add(id(fields))
        for name, leaf in fields.items():
            where = Path(path, name)
            if KINDS[type(leaf)] is not BATCH:
                yield from self.readable(self.row_count(leaf, where), where)
            elif id(leaf.__dict__) in outer:
                yield self.problem(where, "TB104 endless-nesting", "", _HOLDS_ITSELF)
            elif id(leaf.__dict__) not in done:
                yield self.inside(leaf.__dict__, where, outer, done)
        outer.remove(id(fields))
        done.add(id(fields))

    def row_count(self, leaf: Any, path: Path) -> Walk:
        shape = leading_shape(leaf)
        if shape:
            if says := contradiction(leaf):
                yield self.problem(path, "TB105 unreadable-field", "", says, _ODD_CLASS)
            conflict = self.size(ROWS, shape[0], path)
            if conflict is not None:
                yield conflict

    def wrong_kind(self, value: Any, field: Field, path: Path) -> Walk:
        if is_reserved(value):
            yield self.problem(path, "TB103 reserved-field", field.expects(), _RESERVED, _SET_IT)
            return
        hint = "" if self.known.trying else self.proposals.hint(value, field, path)
        yield self.problem(path, "TB202 wrong-kind", field.expects(), describe(value), hint)
        if any(option.shape == WITH_ROWS for option in field.options if option.kind in (ARRAY, TENSOR, DISTRIBUTION)):
            yield from self.row_count(value, path)

    def shape(self, option: Option, value: Any, path: Path, computed: list[_Size]) -> list[Problem]:
        """The sizes of an array, a tensor or a distribution."""
        sizes = tuple(value.batch_shape if option.kind is DISTRIBUTION else value.shape)
        shape = option.shape
        if not shape.has_rank(len(sizes)):
            if shape == WITH_ROWS:
                hint = "one row keeps its rows as batch[i:i+1]"
                return [self.problem(path, "TB301 no-rows", "one value per row", f"a scalar {describe(value)}", hint)]
            what = "a number" if shape == NO_DIMS else f"shape {shape}"
            return [self.problem(path, "TB303 wrong-shape", what, f"shape {show_sizes(sizes)}")]
        found: list[Problem | None] = []
        after = len(sizes) - len(shape.after)
        wrong = False
        for dim, size in [*zip(shape.before, sizes, strict=False), *zip(shape.after, sizes[after:], strict=True)]:
            if dim.broadcasts and size == 1:
                continue
            if dim.sort is Sort.NAMED:
                found.append(self.size(dim.text, size, path))
            elif dim.sort is Sort.FIXED:
                wrong |= size != dim.size
            elif dim.sort is Sort.COMPUTED:
                computed.append((path, dim, size))
        if wrong:
            found.append(self.problem(path, "TB303 wrong-shape", f"shape {shape}", f"shape {show_sizes(sizes)}"))
        if shape.variadic is not None and shape.dims[shape.variadic].sort is Sort.SOME:
            found.append(self.several_sizes(shape.dims[shape.variadic], sizes[len(shape.before) : after], path))
        return [problem for problem in found if problem is not None]

    def size(self, name: str, size: Size, path: Path) -> Problem | None:
        """One size of a dimension with a name. Outside of attempts a conflict between fields is left for the end."""
        known, key = self.known, (name, path)
        if name not in known.sizes:
            known.set(known.sizes, name, size)
        elif known.trying and known.sizes[name] != size:
            return self.problem(path, "TB302 dimension-conflict", "", "")
        if key not in known.votes:
            known.set(known.votes, key, size)
        other = known.votes[key]
        if other is None or other == size:
            return None
        known.set(known.votes, key, None)
        return self.problem(path, "TB302 dimension-conflict", "", f"{name} is both {other} and {size} here")

    def several_sizes(self, dim: Dim, sizes: tuple[int, ...], path: Path) -> Problem | None:
        several = self.known.several
        known = several.get(dim.text)
        if not dim.broadcasts and (known is None or not known[0]):
            self.known.set(several, dim.text, known or (False, sizes))
            return self.size(f"*{dim.text}", sizes, path)
        now = broadcast(known, sizes, dim.broadcasts)
        if now is not None:
            self.known.set(several, dim.text, now)
            return None if dim.broadcasts else self.size(f"*{dim.text}", sizes, path)
        before = "other sizes" if known is None else show_sizes(known[1])
        says = f"{dim} is {show_sizes(sizes)} here, but {before} in the fields before"
        return self.problem(path, "TB302 dimension-conflict", "", says)

    def computed(self, computed: list[_Size]) -> Walk:
        """The sizes that are expressions of others, as those are known by now."""
        for path, dim, size in computed:
            sizes = {name: size for name, size in self.known.sizes.items() if isinstance(size, int)}
            wanted = compute(dim.text, sizes)
            if wanted is not None and wanted != size and (self.known.trying or not self.known.disputed(dim.names)):
                given = ", ".join(f"{name} is {sizes[name]}" for name in dim.names)
                expected = f"{dim.text} = {str(wanted)[:20]}, as {given}"
                yield self.problem(path, "TB304 wrong-size", expected, f"a size of {size}")

    def problem(self, path: Path | None, code: Code, expected: str, got: str, hint: str = "") -> Problem:
        where = "" if path is None or self.known.trying else str(path)  # of an attempt only the code is used
        return Problem(where, code, expected, got, self.root, hint)


class _Spare:
    """The fields that a batch has beyond the declared ones: one of them may be a missing one by another name."""

    def __init__(self, fields: Mapping[str, Any], schema: Schema) -> None:
        self.fields, self.schema = fields, schema
        self.names: list[str] | None = None

    def hint(self, field: Field) -> str:
        if self.names is None:
            declared = {field.name for field in self.schema.fields}
            self.names = [name for name in self.fields if name not in declared]
            missing = sum(field.name not in self.fields for field in self.schema.fields)
            if len(self.names) * missing > 2500:  # a look at every pair would take seconds
                self.names = []
        near = counterpart(field.name, tuple(self.names))
        where = f"declared in {field.declared_in.rpartition('.')[2]}, {field.place}" if field.place else ""
        where = where or f"declared in {field.declared_in}"
        return f"did you mean {near!r}?  ({where})" if near else where


def _raises(error: Exception) -> str:
    return f"raises {type(error).__name__} when it is looked at"


def _cast(option: Option, path: Path) -> str:
    """What to write, where just one dtype is asked for."""
    dtype = option.dtypes.words if option.dtypes is not None else ""
    if not dtype.isidentifier():
        return ""
    return f"batch.{path}.to(torch.{dtype})" if option.kind is TENSOR else f"batch.{path}.astype({dtype!r})"


def _kind(value: Any) -> Kind:
    """The kind that the value passes for: a row's numpy scalar for an array."""
    kind = KINDS[type(value)]
    return ARRAY if kind is SCALAR else kind


def distance(option: Option, value: Any) -> int:
    """How far an alternative is from a value, at a glance: the names of a batch, the dtype and rank of an array."""
    if option.kind is BATCH and option.schema is not None:
        names = computed_in(option.schema)[type(value)]
        fields = as_read(value, names) if names else value.__dict__
        return sum(
            not field.optional
            if field.name not in fields
            else field.kinds is not None and _kind(fields[field.name]) not in field.kinds
            for field in option.schema.fields
        )
    if option.kind in (ARRAY, TENSOR):
        wrong_dtype = option.dtypes is not None and not option.dtypes[value.dtype]
        return wrong_dtype + (not option.shape.has_rank(len(value.shape)))
    return int(option.cls is not None and not isinstance(value, option.cls))
