"""Generated checks: Python source that tells whether a batch matches, written and compiled once per schema.

A check consists of the ``if`` statements that one would write by hand, and is as fast (see the page of performance).
If it fails, ``explain`` looks for the reasons. The two must agree; a test compares them on random schemas and batches.
For ::

    class Pixels(BatchRecord):
        cam: Float32[np.ndarray, "N 3 8"]
        pos: Array

it writes the following. ``c0`` holds the fields for which a class of batches has properties, ``c1`` is the set of
allowed dtypes, and ``c2`` the most common one of them. ::

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
            if v3.dtype.hasobject and holds_objects(v3):
                return False
            if v3.shape[0] != d0:
                return False
        except Exception:
            return False
        return True

Named dimensions become the local variables ``d0``, ``d1``, which are None while the size is unknown. Two things need a
function of their own: alternatives of a union that differ in more than their kind, and nested batches that may be
absent, may have any names, or have sizes of their own. Such a function takes all sizes, and returns them with those
that it has learned, or None if the value does not match.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

from numpy import ndarray

from typedbatch._core.kinds import ARRAY, KINDS, SCALAR, TENSOR, Kind, contradiction, jagged_shape
from typedbatch._core.lengths import rows_of
from typedbatch._core.meta import meta_of
from typedbatch._markers import Steps
from typedbatch.schema import steps
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, broadcast, compute
from typedbatch.schema.dtypes import Dtypes
from typedbatch.schema.fields import WITH_ROWS, Field, Option, Schema, as_read, holds_objects, is_choice, is_sized

Check = Callable[[object], bool]
_CHECKS: dict[Schema, Check] = {}
_TORCH_DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_DEEPEST, _MOST = 20, 300


def source_of(schema: Schema) -> str:
    """Return the source of the check, for debugging and tests. Constants are called ``c0``, ``c1``."""
    return CodeWriter(schema).check(schema)


def generate(schema: Schema) -> Check:
    """Write and compile the check of a schema that does not nest itself."""
    writer = CodeWriter(schema)
    return cast("Check", writer.compile(writer.check(schema), f"check of {schema.name}")["check"])


def check_of(schema: Schema) -> Check:
    """Return the compiled function that checks whether an object matches a schema; always the same one."""
    check = _CHECKS.get(schema)
    if check is None:
        look_up_dtypes(schema)
        check = _CHECKS[schema] = generate(schema) if can_generate(schema) else partial(_walk, schema)
    return check


def look_up_dtypes(schema: Schema) -> None:
    """Look up torch's usual dtypes among those of tensors, because torch.compile cannot trace a first look-up."""
    torch = sys.modules.get("torch")
    found = {id(option.dtypes): option.dtypes for option in schema.every_option() if option.kind is TENSOR}
    for dtypes in found.values() if torch is not None else ():
        if dtypes is not None:
            dtypes.update({dtype: dtypes[dtype] for dtype in (getattr(torch, name) for name in _TORCH_DTYPES)})


def _walk(schema: Schema, batch: object) -> bool:
    """Check a batch by walking it, for schemas that nest themselves or are too large to generate source for."""
    # Imported here because it takes longer to import than everything else that a check needs.
    from typedbatch.schema.explain import find_problems

    try:
        return not find_problems(batch, schema)
    except Exception:  # noqa: BLE001  # a batch that another thread changes meanwhile may raise anything
        return False


class CodeWriter:
    """The source of all functions that check one schema, with the constants that they use."""

    def __init__(self, *schemas: Schema) -> None:
        self.constants: dict[str, Any] = {}
        self.dims: dict[str, str] = {}
        """The local variable of each dimension, by the key of its name."""
        self.functions: list[str] = []
        options = (option for schema in schemas for option in schema.every_option())
        for dim in (Dim(Sort.NAMED, ROWS), *(dim for option in options for dim in option.shape.dims)):
            if dim.sort in (Sort.NAMED, Sort.SOME):
                self.dims.setdefault(dim.key, f"d{len(self.dims)}")

    def check(self, schema: Schema) -> str:
        """Return the source of the check of a batch."""
        body = Body(self, "return False", 2, 0)
        body.fields(schema, "batch")
        head = [
            "def check(batch):",
            "    try:",
            "        if KINDS[type(batch)] is not BATCH:",
            "            return False",
        ]
        unknown = [f"        {' = '.join([*self.dims.values(), '_'])} = None"]
        end = ["    except Exception:", "        return False", "    return True"]
        return "\n".join([*self.functions, *head, *unknown, *body.lines, *end, ""])

    def compile(self, source: str, title: str) -> dict[str, Any]:
        """Compile the source, run it and return the names that it defines."""
        names = {**_GLOBALS, "Tensor": getattr(sys.modules.get("torch"), "Tensor", None), **self.constants}
        exec(compile(source, f"<{title}>", "exec"), names)  # safe: field names in the source are quoted
        return names

    @property
    def state(self) -> str:
        """The variables of all dimensions, as parameters and return value; with "_", so that there is at least one."""
        return ", ".join([*self.dims.values(), "_"])

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    @property
    def rows(self) -> str:
        """Like ``state`` for the rows alone, which a batch with sizes of its own shares with the rest."""
        return f"{self.dims[ROWS]}, _"

    def function(self, write: Callable[[Body], None], argument: str, depth: int, own_sizes: bool = False) -> str:
        """Add a function and return its name; ``write`` writes its body, for a value nested in ``depth`` batches."""
        body = Body(self, "return None", 2, depth)
        state = self.rows if own_sizes else self.state
        own = [local for name, local in self.dims.items() if own_sizes and name != ROWS]
        if own:
            body.write(" = ".join([*own, "None"]))
        write(body)
        name = f"g{len(self.functions)}"
        end = ["    except Exception:", "        return None", f"    return ({state},)"]
        self.functions.append("\n".join([f"def {name}({argument}, {state}):", "    try:", *body.lines, *end]))
        return name


@cache
def can_generate(schema: Schema) -> bool:
    """Return True unless the schema nests itself, is too deep or has too many nested schemas: code grows with them."""
    todo, count = [(schema, 0)], 0
    while todo:
        inner, depth = todo.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST:
            return False
        options = (option for field in inner.fields for option in field.every_option())
        todo += ((option.schema, depth + 1) for option in options if option.schema is not None)
    return True


class Body:
    """The statements of one generated function, written one after another by the methods.

    ``fail`` is the statement that ends the function when a value does not match. ``depth`` is the number of batches
    around the values that it checks, and ``indent`` the depth of indentation that the statements begin with.
    """

    def __init__(self, writer: CodeWriter, fail: str, indent: int, depth: int) -> None:
        self.writer: CodeWriter = writer
        self.fail: str = fail
        self.indent: int = indent
        self.depth: int = depth
        self.lines: list[str] = []
        self.known: set[str] = set()
        """The variables of dimensions that certainly have a size at this point of the function."""
        self.uncertain: set[str] = set()
        """The variables of dimensions that get a size from the current shape only if it is not broadcast."""
        self.count: int = 0
        self.inlined: int = 0
        self.computed: list[tuple[str, Dim]] = []
        """The sizes still to be compared with their expressions: variable of the size, and the dimension."""

    def write(self, *lines: str) -> None:
        self.lines += ("    " * self.indent + line for line in lines)

    def refuse(self, condition: str) -> None:
        self.write(f"if {condition}:", f"    {self.fail}")

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def fields(self, schema: Schema, batch: str) -> None:
        """Write the check of all fields of a batch: look them up, check them, then check computed sizes."""
        fields, values = self.new("f"), [self.new("v") for _ in schema.fields]
        computed = self.writer.constant(schema.computed)
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
        self.one_shape(schema.fields, values)

    def one_shape(self, fields: Sequence[Field], values: Sequence[str]) -> None:
        """Write the check that fields with one number per step have one shape, with which the marked others begin."""
        pairs = [*zip(fields, values, strict=True)]
        ones = [value for field, value in pairs if field.steps is Steps.ONE]
        if not ones:
            return
        firsts = " ".join(f"{value}," for field, value in pairs if field.steps is Steps.FIRST)
        if not all(steps.is_plain(field) for field in fields if field.steps is Steps.ONE):
            # arrays of one shape, one number per row, fit without a call
            unusual = [f"type({value}) is not ndarray" for value in ones]
            unusual += [f"len({ones[0]}.shape) != 1", *(f"{value}.shape != {ones[0]}.shape" for value in ones[1:])]
            fit = f"steps_fit(({' '.join(f'{value},' for value in ones)}), ({firsts}))"
            self.refuse(f"({' or '.join(unusual)}) and not {fit}")
            return
        name = self.new("p")
        self.write(f"{name} = {ones[0]}.shape")
        if others := [f"{value}.shape != {name}" for value in ones[1:]]:
            self.refuse(" or ".join(others))
        if firsts:
            self.refuse(f"len({name}) != 1 and not steps_fit(({ones[0]},), ({firsts}))")

    def each_field(self, fields: Sequence[Field], values: Sequence[str]) -> None:
        """Write the check of fields whose values are in variables. A missing value is ``ABSENT``."""
        for field, value in zip(fields, values, strict=True):
            if field.optional:
                self.branch(f"if {value} is not ABSENT:", partial(self.field, field, value))
            else:
                self.field(field, value)

    def settled(self, write: Callable[[], None]) -> None:
        """Write statements, then the check of computed sizes, since only then all sizes are known."""
        outer, self.computed = self.computed, []
        start, indent = len(self.lines), self.indent
        write()
        if self.computed:
            self.lines.insert(start, "    " * indent + " = ".join([*(size for size, _ in self.computed), "None"]))
        for size, dim in self.computed:
            self.refuse_computed(size, dim)
        self.computed = outer

    def branch(self, condition: str, write: Callable[[], None]) -> set[str]:
        """Write statements under a condition; return the dimensions known in there, which are not known after it."""
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
        """Write the check of the value of a field."""
        options = field.options
        if not options:
            self.anything(value)
        elif len(options) == 1 and options[0].kind is TENSOR and "torch" in sys.modules:
            self.write(f"if type({value}) is not Tensor:", f"    if not is_tensor({value}):", f"        {self.fail}")
            self.write(f"    {value} = with_sizes({value})")
            self.option(options[0], value)
        elif len(options) == 1:
            kind = options[0].kind
            is_other = f"{value} is not None" if kind is Kind.NONE else f"KINDS[type({value})] is not {kind.name}"
            self.refuse(f"type({value}) is not ndarray and not is_array({value})" if kind is ARRAY else is_other)
            self.option(options[0], value)
        else:
            self.one_of(options, value)

    def one_of(self, options: tuple[Option, ...], value: str) -> None:
        """Write a branch for each kind of value in a union, with the alternatives of that kind."""
        known: list[set[str]] = []
        conditions = {
            ARRAY: f"type({value}) is ndarray or is_array({value})",
            TENSOR: f"is_tensor({value})",
            Kind.NONE: f"{value} is None",
        }
        for kind in dict.fromkeys(option.kind for option in options):
            same = [option for option in options if option.kind is kind]
            condition = conditions.get(kind, f"KINDS[type({value})] is {kind.name}")
            branch = f"{'elif' if known else 'if'} {condition}:"
            known.append(self.branch(branch, partial(self.first_of, same, value)))
        self.write("else:", f"    {self.fail}")
        self.known = set.intersection(*known)

    def first_of(self, options: list[Option], value: str) -> None:
        """Write a function for each alternative of a kind. The first one that matches decides."""
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
        """Write statements that unpack the sizes returned by a function, and fail if it returned None."""
        self.refuse(f"{answer} is None")
        self.write(f"({state or self.writer.state},) = {answer}")

    def option(self, option: Option, value: str, nest: bool = True) -> None:
        """Write all other checks of a value that is of the option's kind."""
        if option.cls is not None:
            self.refuse(f"not isinstance({value}, {self.writer.constant(option.cls)})")
        if option.choices:
            self.refuse(f"not is_choice({value}, {self.writer.constant(option.choices)})")
        if option.kind in (ARRAY, TENSOR):
            if option.dtypes is not None:
                self.dtype(option, option.dtypes, value)
            if option.no_objects:
                self.refuse(f"{value}.dtype.hasobject and holds_objects({value})")
            if option.no_gradient:
                self.refuse(f"{value}.requires_grad")
            self.shape(option, f"{value}.shape")
        elif option.kind is Kind.DISTRIBUTION:
            self.shape(option, f"{value}.batch_shape")
        elif option.kind is Kind.RAGGED:
            self.shape(option, f"{value}.sizes.shape")
            self.refuse(f"not sequences_match({value}, {self.writer.constant(option.schema)})")
        elif option.kind is Kind.BATCH:
            self.batch(option, value, nest)
        elif option.kind is Kind.OBJECT and is_sized(option.cls):
            self.write(f"len({value})")  # if len() raises, the check fails

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
        """Write the check of a batch with no declaration: its leaves must have the common number of rows."""
        rows = self.writer.dims[ROWS]
        self.write(f"if {value}.__dict__:", f"    {rows} = rows_of({value}, {rows}, {self.depth})")
        self.write(f"    if {rows} is False:")
        self.write(f"        {self.fail}")

    def anything(self, value: str) -> None:
        """Write the check of any value. If it has rows, it must have the common number of rows."""
        rows = self.writer.dims[ROWS]
        # Most values are arrays with the common number of rows, which need no more than this.
        condition = f"if type({value}) is not ndarray or {value}.shape[:1] != ({rows},):"
        self.branch(condition, partial(self.anything_else, value))

    def anything_else(self, value: str) -> None:
        """Write the check of any value other than an array with the common number of rows, if that is known."""
        rows, kind = self.writer.dims[ROWS], self.new("k")
        self.write(f"{kind} = KINDS[type({value})]")
        self.branch(f"if {kind} is BATCH:", partial(self.rows, value))
        self.write(f"elif {kind} in (ARRAY, TENSOR, DISTRIBUTION, RAGGED):")
        self.write(f"    {rows} = rows_of({value}, {rows}, 0)")
        self.write(f"    if {rows} is False:", f"        {self.fail}")

    def shape(self, option: Option, shape: str) -> None:
        """Write the check of a shape: first all comparisons, then assignments for the sizes that it makes known."""
        exact = self.exact(option.shape) if option.kind is ARRAY else ""
        if exact:
            self.refuse(f"{shape} != ({exact})")
            return
        rows = self.writer.dims[ROWS]
        if option.shape == WITH_ROWS and rows in self.known:  # without rows, IndexError fails the check
            self.refuse(f"{shape}[0] != {rows}")
            return
        name = self.new("s")
        self.write(f"{name} = {shape}")
        before, after = option.shape.before, option.shape.after
        rank = len(before) + len(after)
        failures = [f"len({name}) {'!=' if option.shape.variadic is None else '<'} {rank}"]
        makes: dict[str, str] = {}
        self.uncertain = set()
        places = [(dim, f"{name}[{i}]") for i, dim in enumerate(before)]
        places += [(dim, f"{name}[{i - len(after)}]") for i, dim in enumerate(after)]
        for dim, size in places:
            failures += self.size(dim, size, makes)
        self.refuse(" or ".join(failures))
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
        """Return the elements of the shape as source if every size in it is known, else an empty string."""
        sizes: list[str] = []
        for dim in shape.dims:
            name = dim.text if dim.sort is Sort.FIXED else self.writer.dims.get(dim.text, "")
            if dim.broadcasts or not (dim.sort is Sort.FIXED or (dim.sort is Sort.NAMED and name in self.known)):
                return ""
            sizes.append(f"{name},")
        return " ".join(sizes)

    def size(self, dim: Dim, size: str, makes: dict[str, str]) -> list[str]:
        """Return the conditions under which a size fails, and add the sizes that it makes known to ``makes``."""
        passes = f"{size} != 1 and " if dim.broadcasts else ""
        if dim.sort is Sort.FIXED:
            return [f"{passes}{size} != {dim.text}"]
        if dim.sort is not Sort.NAMED:
            return []
        name = self.writer.dims[dim.text]
        before = makes.get(name, name)
        sure = name in self.known or (name in makes and name not in self.uncertain)
        if not sure and dim.broadcasts:  # a size of 1 leaves the dimension unknown
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
    """Return whether all leaves have as many rows as the lengths sum up to, and match the schema with local sizes."""
    if rows_of(ragged.values, int(ragged.sizes.sum()), 0) is False:
        return False
    return schema is None or check_of(schema)(ragged.values)


def _is_tensor(value: Any) -> bool:
    return KINDS[type(value)] is TENSOR and not contradiction(value)


class _Sizes(NamedTuple):
    """Shape and dtype of a jagged tensor, checked in its place."""

    shape: tuple[Any, ...]
    dtype: Any


def _with_sizes(tensor: Any) -> Any:
    """Return the tensor, or the ``_Sizes`` of a jagged tensor, whose own shape has symbols that cannot be compared."""
    return _Sizes(jagged_shape(tensor), tensor.dtype) if tensor.is_nested else tensor


_GLOBALS: dict[str, Any] = {
    **Kind.__members__, "ndarray": ndarray, "KINDS": KINDS, "broadcast": broadcast, "is_choice": is_choice,
    "rows_of": rows_of, "as_read": as_read, "ABSENT": object(), "compute": compute, "meta_of": meta_of,
    "steps_fit": steps.fits, "holds_objects": holds_objects, "is_array": _is_array, "is_tensor": _is_tensor,
    "sequences_match": _sequences_match, "with_sizes": _with_sizes,
}  # fmt: skip
