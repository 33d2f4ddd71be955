"""Checks of calls: arguments and results with jaxtyping annotations, and sizes of the same name across a call.

A name that is written in several annotations, or in the fields of batches, is the same size in the whole call. If the
declaration of a batch does not name its rows, as that of ``RolloutBatch``, their number is local to that batch. So is
the number of rows of a result, unless an array of the call names it: functions that sample, filter or split return
other rows than they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Annotated, Any, Union, get_args

from typedbatch._core.declaration import SeparateSizes
from typedbatch._core.kinds import ARRAY, BATCH, NONE, NUMBER, Tree, describe
from typedbatch._ops.display import summary
from typedbatch.errors import DeclarationError, Problem
from typedbatch.schema import schema_of
from typedbatch.schema.annotations import alternatives, bare
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort
from typedbatch.schema.explain import Explainer
from typedbatch.schema.fields import NO_DIMS, Field, Option, Schema
from typedbatch.schema.generate import Body, CodeWriter, can_generate, look_up_dtypes
from typedbatch.schema.hints import CallProposals
from typedbatch.schema.paths import RETURN, Argument, child, top_of
from typedbatch.schema.read import is_schema
from typedbatch.schema.size_conflicts import conflicts
from typedbatch.schema.values import class_of, is_jaxtyping, options
from typedbatch.schema.violations import find_violations

_NUMBERS = {bool, int, float, complex}

_EARLIER = "the arguments"
"""Path in a report for the sizes from before the call, if the call has changed its arguments."""

Sizes = tuple[Any, ...]
"""The size of each name in one call, in the order in which the check declares them; None for an unknown size."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A checked value of a call: an argument, the result or an element of the result.

    Attributes:
        field: Accepted values, under the name that reports show.
        names: Keys of the sizes that the annotation names.
        kind: Kind of the parameter, or None for the result.
        position: Index in the tuple that is returned, or None for the result itself.
    """

    field: Field
    names: frozenset[str]
    kind: Any = None
    position: int | None = None

    @property
    def is_batch(self) -> bool:
        return any(option.kind is BATCH for option in self.field.options)


class Call:
    """The check of the calls of one function, by its resolved annotations without those that cannot be read."""

    def __init__(self, name: str, signature: Signature, hints: Mapping[str, Any], returns: Any) -> None:
        self.name: str = name
        self.signature: Signature = signature
        slots = _slots(signature, hints, returns)
        self._arguments: list[_Slot] = [slot for slot in slots if slot.kind is not None]
        self._results: list[_Slot] = [slot for slot in slots if slot.kind is None]
        self.checks_result: bool = bool(self._results)
        self._parts: int | None = len(get_args(bare(returns)[0])) if returns is not None else None
        if slots:
            self._compile()

    def __bool__(self) -> bool:
        return bool(self._arguments or self._results)

    def _compile(self) -> None:
        schemas = [Schema("", object, "", (slot.field,)) for slot in (*self._arguments, *self._results)]
        for schema in schemas:
            look_up_dtypes(schema)
        writer = CodeWriter(*schemas)
        self._names = tuple(writer.dims)
        before, after = (_write_check(writer, slots) for slots in (self._arguments, self._results))
        plain = [  # the same parameters, without annotations and with ABSENT for every default
            parameter.replace(
                annotation=Parameter.empty,
                default=Parameter.empty if parameter.default is Parameter.empty else _ABSENT,
            )
            for parameter in self.signature.parameters.values()
        ]
        given = [*(slot.field.name for slot in self._arguments), *["None"] * (not self._arguments)]
        unknown = ["None"] * (len(self._names) + 1)
        outer = [
            f"__check__ = {before}",  # dunder names, since parameters may have any other name
            f"def __arguments__{Signature(plain)}:",
            f"    return __check__({', '.join([*given, *unknown])})",
        ]
        made = writer.compile("\n".join([*writer.functions, *outer, ""]), f"check of {self.name}")
        self.sizes: Any = made["__arguments__"]
        """The function that returns the sizes of a call, or None if an argument is wrong.

        Raises:
            TypeError: the arguments do not match the signature.
        """
        self._check_result: Any = made[after]

    def fits(self, result: Any, sizes: Sizes) -> bool:
        """Return whether a result matches its declaration, for arguments of these sizes."""
        values = self._result_values(result)
        return values is None or self._check_result(*values, *sizes) is not None

    def _result_values(self, result: Any) -> list[Any] | None:
        """Return the values that are checked; None if the result is not a tuple of the declared length."""
        if all(slot.position is None for slot in self._results):
            return [result]
        if not isinstance(result, tuple) or len(result) != self._parts:
            return None
        return [result[slot.position] for slot in self._results if slot.position is not None]

    def result_problems(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], sizes: Sizes, own: list[Field], results: dict[str, Any]
    ) -> tuple[Problem, ...]:
        """Return the problems of a refused result, whose fields and values are given."""
        fields, values = self.bound(args, kwargs)
        problems = self.problems([*fields, *own], {**values, **results})
        found = tuple(problem for problem in problems if problem.path.startswith(RETURN))
        # If the arguments explain nothing, the call has changed them: compare with the sizes from before the call.
        return found or self.problems(own, results, sizes)

    def results(self, result: Any) -> tuple[list[Field], dict[str, Any]]:
        """Return a field for each value of a result that is checked, and the values."""
        fields = [slot.field for slot in self._results]
        return fields, dict(zip((field.name for field in fields), self._result_values(result) or (), strict=False))

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Field], dict[str, Any]]:
        """Return a field for each argument that was passed, each of ``*args`` and ``**kwargs`` too, and the values."""
        bound = self.signature.bind(*args, **kwargs).arguments
        fields, values = list[Field](), dict[str, Any]()
        for slot in self._arguments:
            name = slot.field.name
            if name not in bound:
                continue
            found = {name: bound[name]}
            if slot.kind is Parameter.VAR_POSITIONAL:
                found = {f"{name}[{i}]": value for i, value in enumerate(bound[name])}
            elif slot.kind is Parameter.VAR_KEYWORD:
                found = bound[name]
            fields += (replace(slot.field, name=shown) for shown in found)
            values.update(found)
        return fields, values

    def problems(
        self, fields: Iterable[Field], values: Mapping[str, Any], sizes: Sizes | None = None
    ) -> tuple[Problem, ...]:
        """Return the problems of values of a refused call; ``sizes`` are those that are known before."""
        schema = Schema(self.name, object, "", tuple(fields))
        call = SimpleNamespace(**values)
        walker = Explainer(schema, call, CallProposals(schema, call))
        if sizes is not None:
            walker.knows(zip(self._names, sizes, strict=False), Argument(_EARLIER))
        walker.arguments(values, schema)
        votes = walker.known.by_name()
        paths = {path for known in votes.values() for path in known}
        of_result = {path for path in paths if top_of(path.top) == RETURN}
        problems = (*walker.problems, *conflicts(votes, schema.name, paths - of_result if of_result else ()))
        # The last value of a name decides, as in a tuple that is returned.
        batches = {
            top_of(field.name): next((option.schema.name for option in field.options if option.schema is not None), "")
            for field in schema.fields
        }
        found: list[Problem] = []
        for problem in problems:
            batch = batches.get(top_of(problem.path))
            hint = f"Annotated[{batch}, SeparateSizes] gives it sizes of its own" if batch else ""
            if problem.path != _EARLIER:
                found.append(problem._replace(hint=problem.hint or hint))
        return tuple(found)

    def violations(self, fields: Iterable[Field], values: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Return the rules on values that do not hold for arrays among the values of a call."""
        arrays = tuple(field for field in fields if not any(option.kind is BATCH for option in field.options))
        problems = find_violations(SimpleNamespace(**values), Schema(self.name, object, "", arrays))
        shown = {child("", field.name): field.name for field in arrays}
        return tuple(problem._replace(path=shown[problem.path]) for problem in problems)


def summarize(values: Mapping[str, Any]) -> str:
    """Return the values of a call in one line."""
    with suppress(Exception):  # the repr of a user's class may raise anything; the report does without the line
        shown = (summary(value) if isinstance(value, Tree) else describe(value) for value in values.values())
        return "  ".join(f"{name} {text}" for name, text in zip(values, shown, strict=True))
    return ""


def _write_check(writer: CodeWriter, slots: Sequence[_Slot]) -> str:
    """Write the function that checks these values, and return its name."""
    values = [f"p{i}" for i in range(len(slots))]

    def write_slots(body: Body) -> None:
        for slot, value in zip(slots, values, strict=True):
            if slot.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                several = value if slot.kind is Parameter.VAR_POSITIONAL else f"{value}.values()"
                write = partial(body.field, slot.field, f"one_{value}")
                body.branch(f"for one_{value} in {several}:", partial(body.settled, write))
            else:
                body.each_field([slot.field], [value])

    def write(body: Body) -> None:
        body.write("pass")  # the body may have no other statement
        body.settled(partial(write_slots, body))

    return writer.function(write, ", ".join(values) or "p0", 0)


_ABSENT: Any = type("_Absent", (), {"__repr__": lambda _: "ABSENT"})()


# ---- from annotations to slots ---------------------------------------------------------------------------------------


def _slots(signature: Signature, hints: Mapping[str, Any], returns: Any) -> list[_Slot]:
    """Return the slots of all arrays, and those of the batches that share a name of a size with another slot."""
    slots: list[_Slot] = []
    for name, hint in hints.items():
        parameter = signature.parameters[name]
        is_single = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        is_optional = is_single and parameter.default is not Parameter.empty
        slots.append(_slot(name, hint, is_optional, is_single, parameter.kind))
    results = _result_slots(returns)
    arrays = [option for slot in (*slots, *results) if not slot.is_batch for option in slot.field.options]
    if not any(_names_rows(dim) for option in arrays for dim in option.shape.dims):
        results = _result_slots(returns, own_rows=True)
    slots += results
    # A size that is computed from a name that no slot has is not checked: the name may belong to another decorator.
    names = frozenset[str]().union(*(slot.names for slot in slots))
    slots = [
        slot
        for slot in slots
        if slot.field.options
        and all(
            names.issuperset(dim.names)
            for option in slot.field.options
            for dim in option.shape.dims
            if dim.sort is Sort.COMPUTED
        )
    ]
    return [
        slot
        for slot in slots
        if not slot.is_batch or any(slot.names & other.names for other in slots if other is not slot)
    ]


def _result_slots(returns: Any, own_rows: bool = False) -> list[_Slot]:
    hint, _ = bare(returns)
    parts = get_args(hint)
    if class_of(hint) is tuple and Ellipsis not in parts:
        return [_slot(f"{RETURN}[{i}]", part, False, True, None, i, own_rows) for i, part in enumerate(parts)]
    return [] if returns is None else [_slot(RETURN, returns, False, True, None, None, own_rows)]


def _slot(
    name: str, hint: Any, optional: bool, batches: bool, kind: Any, position: int | None = None, own_rows: bool = False
) -> _Slot:
    found = _arrays(hint) or (_sizes_of_batch(hint, own_rows) if batches else ())
    field = Field(name, found, optional)
    every = [option for batch in found if batch.schema is not None for option in batch.schema.every_option()]
    every = every or [*field.every_option()]
    names = frozenset(dim.key for option in every for dim in option.shape.dims if _is_written(dim))
    return _Slot(field, names, kind, position)


def _arrays(hint: Any) -> tuple[Option, ...]:
    """Return the options of a jaxtyping annotation, or of its union with None or numbers; empty for any other."""
    parts = [bare(part)[0] for part in alternatives(bare(hint)[0])]
    if not any(map(is_jaxtyping, parts)):
        return ()
    if not all(is_jaxtyping(part) or part is type(None) or part in _NUMBERS for part in parts):
        return ()
    hint, metadata = bare(hint)
    arrays = tuple(part for part in alternatives(hint) if bare(part)[0] not in _NUMBERS)
    try:
        found = options(Annotated[(Union[arrays], *metadata, "")], lambda _: None)  # noqa: UP007  # only known now
    except DeclarationError:  # "{n}", which jaxtyping has for functions alone, or arrays of another library
        return ()
    return (*found, Option(NUMBER), Option(ARRAY, shape=NO_DIMS)) if _NUMBERS & {*parts} else found


def _sizes_of_batch(hint: Any, own_rows: bool) -> tuple[Option, ...]:
    """Return an option for a batch that already matches its schema: it checks only the sizes that the schema names."""
    hint, metadata = bare(hint)
    parts = [bare(part) for part in alternatives(hint)]
    schemas = [part for part, _ in parts if is_schema(part)]
    if SeparateSizes in metadata or any(SeparateSizes in more for _, more in parts):
        return ()
    if len(schemas) != 1 or not all(part in (schemas[0], type(None)) for part, _ in parts):
        return ()
    schema = schema_of(schemas[0])
    if not can_generate(schema):
        return ()
    options = schema.every_option(shared=True)
    wanted = {dim.key for option in options for dim in option.shape.dims if _is_written(dim)}
    wanted -= {ROWS} if own_rows else set()
    found = Option(BATCH, schema=Schema(schema.name, schema.target, schema.place, _fields_with_sizes(schema, wanted)))
    return (found, Option(NONE)) if len(parts) > 1 else (found,)


def _names_rows(dim: Dim) -> bool:
    """Return whether a dimension is the number of rows, or computed from it, as ``N+1``."""
    return ROWS in dim.names if dim.sort is Sort.COMPUTED else _is_written(dim) and dim.text == ROWS


def _is_written(dim: Dim) -> bool:
    return dim.sort in (Sort.NAMED, Sort.SOME) and not dim.implied and not dim.broadcasts


def _fields_with_sizes(schema: Schema, wanted: set[str]) -> tuple[Field, ...]:
    """Return the fields from which the sizes of the wanted names can be read, required fields first.

    Names whose size a required field gives are removed from ``wanted``.
    """
    found: list[Field] = []
    sure = [field for field in schema.fields if not field.optional and len(field.options) == 1]
    for field in (*sure, *(field for field in schema.fields if field not in sure)):
        inner = [option for option in field.options if option.kind is not NONE]
        if len(inner) != 1:
            continue
        (option,) = inner
        if option.schema is not None and not option.own_sizes:
            inner_fields = _fields_with_sizes(option.schema, wanted)
            reduced = replace(option, schema=replace(option.schema, fields=inner_fields, rules=()))
            useful = bool(inner_fields)
        else:
            names = {dim.key for dim in option.shape.dims if _is_written(dim)} & wanted
            # Everything but these names was checked with the batch.
            dims = (
                dim
                if _is_written(dim) and dim.key in names
                else Dim(Sort.REST, "")
                if dim.sort in (Sort.SOME, Sort.REST)
                else Dim(Sort.ANY, "_")
                for dim in option.shape.dims
            )
            reduced = Option(option.kind, shape=Shape(tuple(dims), option.shape.variadic))
            useful = bool(names) and option.has_shape
            if useful and field in sure:
                wanted -= names
        if useful:
            found.append(Field(field.name, (reduced, *(o for o in field.options if o.kind is NONE)), field.optional))
    return tuple(found)
