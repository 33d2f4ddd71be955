"""The yes or no of validation, as Python source that is written once per schema and then compiled.

Written by hand, such a check would be the same ``if`` statements; that is how fast it is (docs/performance.md). What it
says no to, ``explain`` looks at again; the two agree, and a test compares them on random schemas and batches. For ::

    class Pixels(BatchRecord):
        cam: Float32[np.ndarray, "N 3 8"]
        pos: Array

it writes, ``c0`` being the fields that a class of batches has properties for, ``c1`` the set of dtypes that pass, and
``c2`` the one that they usually are, ::

    def check(batch):
        try:
            if KINDS[type(batch)] is not BATCH:
                return False
            d0 = _ = None
            f1 = batch.__dict__
            if c0[type(batch)]:
                f1 = as_read(batch, c0[type(batch)])
            v2 = f1['cam']
            v3 = f1['pos']
            if type(v2) is not ndarray and not is_array(v2):
                return False
            if v2.dtype is not c2 and not c1[v2.dtype]:
                return False
            s4 = v2.shape
            if len(s4) != 3 or d0 is not None and s4[0] != d0 or s4[1] != 3 or s4[2] != 8:
                return False
            d0 = s4[0]
            if type(v3) is not ndarray and not is_array(v3):
                return False
            if v3.shape[0] != d0:
                return False
        except Exception:
            return False
        return True

Names of dimensions become the locals ``d0``, ``d1``; None while they are not known. What cannot be written in a line is
a function of its own, which takes and returns all of them, or returns None for no: the alternatives of a union that
differ in more than their kind, and batches that may be absent or hold any names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

from numpy import ndarray

from typedbatch._tree.leaves import (
    ARRAY,
    BATCH,
    DISTRIBUTION,
    KINDS,
    NONE,
    NUMBER,
    OBJECT,
    RAGGED,
    SCALAR,
    TENSOR,
    Kind,
    contradiction,
    jagged_shape,
)
from typedbatch._tree.meta import meta_of
from typedbatch._tree.rows import rows_of
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, broadcast, compute
from typedbatch.schema.dtypes import Dtypes
from typedbatch.schema.fields import WITH_ROWS, Field, Option, Schema, is_choice, is_sized
from typedbatch.schema.reading import as_read, computed_in

Check = Callable[[object], bool]

_GLOBALS: dict[str, Any] = {
    "ndarray": ndarray, "KINDS": KINDS, "ARRAY": ARRAY, "BATCH": BATCH, "DISTRIBUTION": DISTRIBUTION, "NONE": NONE,
    "NUMBER": NUMBER, "OBJECT": OBJECT, "RAGGED": RAGGED, "SCALAR": SCALAR, "TENSOR": TENSOR, "broadcast": broadcast,
    "is_choice": is_choice, "rows_of": rows_of, "as_read": as_read, "ABSENT": object(), "compute": compute,
    "meta_of": meta_of,
}  # fmt: skip


def source_of(schema: Schema) -> str:
    """The source of the check, for the curious; constants are called ``c0``, ``c1``."""
    return Writer(schema).check(schema)


def generate(schema: Schema) -> Check:
    """Write and compile the check of a schema that does not nest itself."""
    writer = Writer(schema)
    return cast("Check", writer.compile(writer.check(schema), f"check of {schema.name}")["check"])


class Writer:
    """Writes the functions of one schema."""

    def __init__(self, *schemas: Schema) -> None:
        self.constants: dict[str, Any] = {}
        self.dims: dict[str, str] = {}
        self.functions: list[str] = []
        options = (option for schema in schemas for option in schema.every_option())
        for dim in (Dim(Sort.NAMED, ROWS), *(dim for option in options for dim in option.shape.dims)):
            if dim.sort in (Sort.NAMED, Sort.SOME):
                self.dims.setdefault(dim.key, f"d{len(self.dims)}")

    def check(self, schema: Schema) -> str:
        """The source of the check of a batch."""
        body = Body(self, "return False", 2, 0)
        body.fields(schema, "batch")
        head = [
            "def check(batch):",
            "    try:",
            "        if KINDS[type(batch)] is not BATCH:",
            "            return False",
        ]
        unknown = [f"        {' = '.join([*self.dims.values(), '_'])} = None"]
        end = [*_except("return False"), "    return True"]
        return "\n".join([*self.functions, *head, *unknown, *body.lines, *end, ""])

    def compile(self, source: str, title: str) -> dict[str, Any]:
        """The names that the source defines."""
        torch: Any = sys.modules.get("torch")
        own = {
            "is_array": _is_array,
            "is_tensor": _is_tensor,
            "sequences_match": _sequences_match,
            "with_sizes": _with_sizes,
            "Tensor": getattr(torch, "Tensor", None),
        }
        names = {**_GLOBALS, **own, **self.constants}
        exec(compile(source, f"<{title}>", "exec"), names)  # our own text; names in it are quoted
        return names

    @property
    def state(self) -> str:
        """All dimensions, as parameters and as what is returned; with one more, so that it is never an empty tuple."""
        return ", ".join([*self.dims.values(), "_"])  # "_" so that there is always one

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    @property
    def rows(self) -> str:
        """As ``state``, of the rows alone: what a batch with sizes of its own shares with others."""
        return f"{self.dims[ROWS]}, _"

    def function(self, write: Callable[[Body], None], argument: str, depth: int, own_sizes: bool = False) -> str:
        """Add a function whose body is written by ``write``, for a value in so many batches; its name."""
        body = Body(self, "return None", 2, depth)
        state = self.rows if own_sizes else self.state
        own = [local for name, local in self.dims.items() if own_sizes and name != ROWS]
        if own:
            body.write(" = ".join([*own, "None"]))
        write(body)
        name = f"g{len(self.functions)}"
        lines = [f"def {name}({argument}, {state}):", "    try:", *body.lines]
        lines += _except("return None")
        self.functions.append("\n".join([*lines, f"    return ({state},)"]))
        return name


def _except(fail: str) -> list[str]:
    return ["    except Exception:", f"        {fail}"]


@cache
def can_generate(schema: Schema) -> bool:
    """True unless the schema nests itself, is deeper than 20 or has over 300 parts: code grows with them."""
    todo, count = [(schema, 0)], 0
    while todo:
        one, depth = todo.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST:
            return False
        options = (option for field in one.fields for option in field.every_option())
        todo += ((option.schema, depth + 1) for option in options if option.schema is not None)
    return True


_DEEPEST, _MOST = 20, 300


class Body:
    """The statements of one function, up to ``fail``, the statement that says no, on values in ``depth`` batches."""

    def __init__(self, writer: Writer, fail: str, indent: int, depth: int) -> None:
        self.writer: Writer = writer
        self.fail: str = fail
        self.indent: int = indent
        self.depth: int = depth
        self.lines: list[str] = []
        self.known: set[str] = set()
        """Dimensions that have a size by now on every way here."""
        self.uncertain: set[str] = set()
        """Dimensions that the shape at hand gives a size only where it is not broadcast."""
        self.count: int = 0
        self.inlined: int = 0
        self.computed: list[tuple[str, Dim]] = []

    def write(self, *lines: str) -> None:
        self.lines += ("    " * self.indent + line for line in lines)

    def refuse(self, condition: str) -> None:
        self.write(f"if {condition}:", f"    {self.fail}")

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def fields(self, schema: Schema, batch: str) -> None:
        """All fields of a batch, first looked up, then checked, then the sizes that are computed from others."""
        fields, values = self.new("f"), [self.new("v") for _ in schema.fields]
        computed = self.writer.constant(computed_in(schema))
        self.write(f"{fields} = {batch}.__dict__", f"if {computed}[type({batch})]:")
        self.write(f"    {fields} = as_read({batch}, {computed}[type({batch})])")
        if schema.meta is not None:
            self.refuse(f"not {self.writer.constant(schema.meta.fits)}(meta_of({batch}))")
        for field, value in zip(schema.fields, values, strict=True):
            name = repr(field.name)
            self.write(f"{value} = {fields}.get({name}, ABSENT)" if field.optional else f"{value} = {fields}[{name}]")
        self.depth += 1
        self.settled(partial(self.each_field, schema.fields, values))
        self.depth -= 1

    def each_field(self, fields: Sequence[Field], values: Sequence[str]) -> None:
        """Fields whose values are at hand, ``ABSENT`` where one is not there."""
        for field, value in zip(fields, values, strict=True):
            if field.optional:
                self.branch(f"if {value} is not ABSENT:", partial(self.field, field, value))
            else:
                self.field(field, value)

    def settled(self, write: Callable[[], None]) -> None:
        """Statements, and behind them the sizes that are computed from others, as those are known by then."""
        outer, self.computed = self.computed, []
        start, indent = len(self.lines), self.indent
        write()
        if self.computed:
            self.lines.insert(start, "    " * indent + " = ".join([*(size for size, _ in self.computed), "None"]))
        for size, dim in self.computed:
            self.refuse_computed(size, dim)
        self.computed = outer

    def branch(self, condition: str, write: Callable[[], None]) -> set[str]:
        """Statements under a condition. What they make known is not known behind them; it is returned."""
        before, self.known = self.known, set(self.known)
        self.write(condition)
        self.indent += 1
        length = len(self.lines)
        write()
        if len(self.lines) == length:
            self.write("pass")
        self.indent -= 1
        inside, self.known = self.known, before
        return inside

    def field(self, field: Field, value: str) -> None:
        options = field.options
        if not options:
            self.anything(value)
        elif len(options) == 1 and options[0].kind is TENSOR and "torch" in sys.modules:
            self.write(f"if type({value}) is not Tensor:", f"    if not is_tensor({value}):", f"        {self.fail}")
            self.write(f"    {value} = with_sizes({value})")
            self.option(options[0], value)
        elif len(options) == 1:
            self.refuse(_is_other(value, options[0].kind))
            self.option(options[0], value)
        else:
            self.one_of(options, value)

    def one_of(self, options: tuple[Option, ...], value: str) -> None:
        """The kind of the value tells which alternatives there are for it."""
        known: list[set[str]] = []
        for kind in dict.fromkeys(option.kind for option in options):
            same = [option for option in options if option.kind is kind]
            condition = f"{'elif' if known else 'if'} {_is_kind(value, kind)}:"
            known.append(self.branch(condition, partial(self.first_of, same, value)))
        self.write("else:", f"    {self.fail}")
        self.known = set.intersection(*known)

    def first_of(self, options: list[Option], value: str) -> None:
        """Of several alternatives of a kind each is a function, and the first that says yes decides."""
        if options[0].kind is TENSOR:
            self.write(f"if type({value}) is not Tensor:", f"    {value} = with_sizes({value})")
        if len(options) == 1:
            self.option(options[0], value, nest=False)
            return
        answer = self.new("r")
        self.write(f"{answer} = None")
        for option in options:
            name = self.writer.function(partial(Body.whole, option=option, value="value"), "value", self.depth)
            self.write(f"if {answer} is None:", f"    {answer} = {name}({value}, {self.writer.state})")
        self.take(answer)

    def whole(self, option: Option, value: str) -> None:
        self.settled(partial(self.option, option, value, nest=False))

    def take(self, answer: str, state: str = "") -> None:
        self.refuse(f"{answer} is None")
        self.write(f"({state or self.writer.state},) = {answer}")

    def option(self, option: Option, value: str, nest: bool = True) -> None:
        """The value is of the option's kind; all the rest."""
        if option.cls is not None:
            self.refuse(f"not isinstance({value}, {self.writer.constant(option.cls)})")
        if option.choices:
            self.refuse(f"not is_choice({value}, {self.writer.constant(option.choices)})")
        if option.kind in (ARRAY, TENSOR):
            if option.dtypes is not None:
                self.dtype(option, option.dtypes, value)
            self.shape(option, f"{value}.shape")
        elif option.kind is DISTRIBUTION:
            self.shape(option, f"{value}.batch_shape")
        elif option.kind is RAGGED:
            self.shape(option, f"{value}.sizes.shape")
            self.refuse(f"not sequences_match({value}, {self.writer.constant(option.schema)})")
        elif option.kind is BATCH:
            self.batch(option, value, nest)
        elif option.kind is OBJECT and is_sized(option.cls):
            self.write(f"len({value})")  # an error is a no

    def dtype(self, option: Option, dtypes: Dtypes, value: str) -> None:
        known = self.writer.constant(dtypes)
        usual = dtypes.usual() if option.kind is ARRAY else getattr(sys.modules.get("torch"), dtypes.words, None)
        is_usual = "" if usual is None else f"{value}.dtype is not {self.writer.constant(usual)} and "
        self.refuse(f"{is_usual}not {known}[{value}.dtype]")

    def batch(self, option: Option, value: str, nest: bool) -> None:
        if option.schema is not None and option.own_sizes:
            write, rows = partial(Body.fields, schema=option.schema, batch="inner"), self.writer.rows
            name = self.writer.function(write, "inner", self.depth, own_sizes=True)
            self.call(f"{name}({value}, {rows})", rows)
        elif option.schema is not None and nest and self.inlined < 50:
            self.inlined += 1
            self.fields(option.schema, value)
        elif option.schema is not None:
            name = self.writer.function(partial(Body.fields, schema=option.schema, batch="inner"), "inner", self.depth)
            self.call(f"{name}({value}, {self.writer.state})")
        elif option.each is not None:
            name = self.writer.function(partial(Body.each, each=option.each), "fields", self.depth + 1)
            self.call(f"{name}({value}.__dict__, {self.writer.state})")
        else:
            self.rows(value)

    def each(self, each: Field) -> None:
        self.branch("for value in fields.values():", partial(self.settled, partial(self.field, each, "value")))

    def call(self, call: str, state: str = "") -> None:
        answer = self.new("r")
        self.write(f"{answer} = {call}")
        self.take(answer, state)

    def rows(self, value: str) -> None:
        """A batch of which nothing is declared: its leaves have the rows that all have."""
        rows = self.writer.dims[ROWS]
        self.write(f"if {value}.__dict__:", f"    {rows} = rows_of({value}, {rows}, {self.depth})")
        self.write(f"    if {rows} is False:")
        self.write(f"        {self.fail}")

    def anything(self, value: str) -> None:
        """Any value; arrays, tensors and distributions with dimensions have the rows that all have."""
        rows, kind = self.writer.dims[ROWS], self.new("k")
        self.write(f"{kind} = KINDS[type({value})]")
        self.branch(f"if {kind} is BATCH:", partial(self.rows, value))
        self.write(f"elif {kind} in (ARRAY, TENSOR, DISTRIBUTION, RAGGED):")
        self.write(f"    {rows} = rows_of({value}, {rows}, 0)")
        self.write(f"    if {rows} is False:", f"        {self.fail}")

    def shape(self, option: Option, shape: str) -> None:
        """The sizes: first all that can say no, then what they make known."""
        exact = self.exact(option.shape) if option.kind is ARRAY else ""
        if exact:
            self.refuse(f"{shape} != ({exact})")
            return
        if option.shape == WITH_ROWS and self.writer.dims[ROWS] in self.known:  # an IndexError is a no, as any error
            self.refuse(f"{shape}[0] != {self.writer.dims[ROWS]}")
            return
        name = self.new("s")
        self.write(f"{name} = {shape}")
        before, after = option.shape.before, option.shape.after
        rank = len(before) + len(after)
        no = [f"len({name}) {'!=' if option.shape.variadic is None else '<'} {rank}"]
        makes: dict[str, str] = {}
        self.uncertain = set()
        places = [(dim, f"{name}[{i}]") for i, dim in enumerate(before)]
        places += [(dim, f"{name}[{i - len(after)}]") for i, dim in enumerate(after)]
        for dim, size in places:
            no += self.size(dim, size, makes)
        self.refuse(" or ".join(no))
        several = option.shape.dims[option.shape.variadic] if option.shape.variadic is not None else None
        if several is not None and several.sort is Sort.SOME:
            end = f"len({name}) - {len(after)}" if after else ""
            self.several(several, f"tuple({name}[{len(before)}:{end}])")
        for made, size in makes.items():
            self.write(f"{made} = {size}")
        self.known.update(makes.keys() - self.uncertain)
        for dim, size in places:
            if dim.sort is Sort.COMPUTED:
                self.computed.append((self.new("z"), dim))
                self.write(f"{self.computed[-1][0]} = {size}")

    def exact(self, shape: Shape) -> str:
        """The whole shape, when every size in it is known by now; else empty."""
        sizes: list[str] = []
        for dim in shape.dims:
            name = dim.text if dim.sort is Sort.FIXED else self.writer.dims.get(dim.text, "")
            if dim.broadcasts or not (dim.sort is Sort.FIXED or (dim.sort is Sort.NAMED and name in self.known)):
                return ""
            sizes.append(f"{name},")
        return " ".join(sizes)

    def size(self, dim: Dim, size: str, makes: dict[str, str]) -> list[str]:
        """When one size says no; what it makes known is added to ``makes``."""
        passes = f"{size} != 1 and " if dim.broadcasts else ""
        if dim.sort is Sort.FIXED:
            return [f"{passes}{size} != {dim.text}"]
        if dim.sort is not Sort.NAMED:
            return []
        name = self.writer.dims[dim.text]
        before = makes.get(name, name)
        sure = name in self.known or (name in makes and name not in self.uncertain)
        if not sure and dim.broadcasts:  # a size of 1 makes nothing known
            self.uncertain.add(name)
            makes[name] = f"({before} if {size} == 1 else {size})"
        elif not sure:
            self.uncertain.discard(name)
            makes[name] = size
        return [f"{passes}{'' if sure else f'{before} is not None and '}{size} != {before}"]

    def several(self, dim: Dim, sizes: str) -> None:
        name = self.writer.dims[f"*{dim.text}"]
        answer = self.new("b")
        self.write(f"{answer} = broadcast({name}, {sizes}, {dim.broadcasts})")
        self.refuse(f"{answer} is None")
        self.write(f"{name} = {answer}")

    def refuse_computed(self, size: str, dim: Dim) -> None:
        names = [self.writer.dims[name] for name in dim.names]
        known = "".join(f"{name} is not None and " for name in names)
        passes = f"{size} != 1 and " if dim.broadcasts else ""
        sizes = ", ".join(f"{name!r}: {self.writer.dims[name]}" for name in dim.names)
        self.refuse(f"{size} is not None and {known}{passes}{size} != compute({dim.text!r}, {{{sizes}}})")


def _is_array(value: Any) -> bool:
    kind = KINDS[type(value)]
    return kind is SCALAR or (kind is ARRAY and not contradiction(value))


def _sequences_match(ragged: Any, schema: Schema | None) -> bool:
    """Whether all leaves have the rows that the lengths sum up to, and match the schema, with dimensions of its own."""
    from typedbatch.schema.check import check_of  # which imports this module

    if rows_of(ragged.values, int(ragged.sizes.sum()), 0) is False:
        return False
    return schema is None or check_of(schema)(ragged.values)


def _is_tensor(value: Any) -> bool:
    return KINDS[type(value)] is TENSOR and not contradiction(value)


class _Sizes(NamedTuple):
    """Stands for a jagged tensor."""

    shape: tuple[Any, ...]
    dtype: Any


def _with_sizes(tensor: Any) -> Any:
    """A tensor whose shape compares: of a jagged one, what stands for it."""
    return _Sizes(jagged_shape(tensor), tensor.dtype) if tensor.is_nested else tensor


def _is_kind(value: str, kind: Kind) -> str:
    if kind is ARRAY:
        return f"type({value}) is ndarray or is_array({value})"
    if kind is TENSOR:
        return f"is_tensor({value})"
    return f"{value} is None" if kind is NONE else f"KINDS[type({value})] is {kind.name}"


def _is_other(value: str, kind: Kind) -> str:
    if kind is ARRAY:
        return f"type({value}) is not ndarray and not is_array({value})"
    return f"{value} is not None" if kind is NONE else f"KINDS[type({value})] is not {kind.name}"
