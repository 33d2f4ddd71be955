"""Calls: of operations that have a table, of functions with declared shapes, of records, of batches' own methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from mypy.nodes import (
    ARG_NAMED,
    ARG_OPT,
    ARG_POS,
    ARG_STAR,
    CallExpr,
    Expression,
    FuncBase,
    MemberExpr,
    MypyFile,
    NameExpr,
    RefExpr,
    TypeInfo,
)
from mypy.types import CallableType, Instance, Type, get_proper_type
from mypy.typevars import has_no_typevars

from typedbatch._program.arrays.declared import STEPS
from typedbatch._program.arrays.distributions import CONSTRUCTORS, HOME, KL, divergence
from typedbatch._program.arrays.distributions import METHODS as DISTRIBUTION_METHODS
from typedbatch._program.arrays.held import bind
from typedbatch._program.arrays.making import DRAWS, OWNERS
from typedbatch._program.arrays.products import EINOPS, EINOPS_FUNCTIONS
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.tables import CONVERSIONS, FUNCTIONS, METHODS, RESHAPED_IN_PLACE
from typedbatch._program.arrays.values import (
    Arguments,
    Array,
    Distribution,
    Many,
    MismatchError,
    Record,
    Several,
    Value,
)
from typedbatch.mypy.batches.content import NOTHING, Content, Items, Ref
from typedbatch.mypy.batches.effects import FUNCTIONS as BATCH_FUNCTIONS
from typedbatch.mypy.batches.handing import is_of_libraries, only_reads
from typedbatch.mypy.batches.protocol_match import asked_protocol
from typedbatch.mypy.batches.summaries import Application, Summary, bound_values, called, is_overridden, method_of
from typedbatch.mypy.declared import declared_by, is_array
from typedbatch.mypy.engine.builtins import BUILTINS
from typedbatch.mypy.engine.known import field_declared, is_batch
from typedbatch.mypy.engine.layered import Layered
from typedbatch.mypy.engine.pythons import PYTHONS
from typedbatch.mypy.engine.swapped import check_arguments
from typedbatch.mypy.internals import member_of, module_around
from typedbatch.mypy.types.extend import needed_from
from typedbatch.mypy.types.fields import Rest
from typedbatch.schema.dims import Shape

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading

_WRITTEN = frozenset({"numpy", "torch", "torch.nn.functional", "torch.nn.utils.rnn"})
_HOMES = frozenset({
    "numpy", "torch", "torch.functional", "torch.nn.functional", "torch._C._VariableFunctions", "torch.nn.utils.rnn",
})  # fmt: skip
_INSIDE = ("numpy._core.", "numpy.core.", "numpy.lib.", "torch._C.")
_SAME_ROWS = frozenset({"to_torch", "to_numpy", "copy", "apply_values_transform"})
_SPLITS = frozenset({"split"})
_OF_ROWS = ("typedbatch.buffers.", "typedbatch.training.")


class Calls:
    """Reads calls.

    Args:
        reading: what reads their arguments.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._layered = Layered(reading, lambda node: self._arguments(node, (), torch=True))

    def read(self, node: CallExpr) -> Value:
        """What a call gives."""
        reading, callee = self._reading, node.callee
        made = self._layered.read(node)
        if made is not None:
            return made
        known = BATCH_FUNCTIONS.get(_full_name(callee))
        if known is not None:
            return known(reading.batches, node)
        distribution = self._of_distribution(node)
        if distribution is not None:
            return distribution
        draw = DRAWS.get(callee.name) if isinstance(callee, MemberExpr) else None
        if draw is not None and isinstance(callee, MemberExpr) and self._is_generator(callee.expr):
            return self._operation(node, draw, (), torch=False)
        layer = self._layered.called(callee)
        if layer is not None:
            return self._operation(node, layer.call, (), torch=True)
        if isinstance(callee, MemberExpr) and not _is_module(callee.expr):
            owner = reading.read(callee.expr)
            if isinstance(owner, Ref):
                return reading.batches.call(node, owner, callee.name)
            if isinstance(owner, Array):
                return self._method(node, owner, callee.name)
            if isinstance(owner, Distribution):
                method = DISTRIBUTION_METHODS.get(callee.name, lambda distribution, arguments: None)
                return self._operation(node, partial(method, owner), (), torch=True)
            if isinstance(owner, Record) and is_batch(owner.type.type):
                found = self._of_batch(node, owner, callee.name)
                if found is not None:
                    return found
            if isinstance(owner, Record) and f"{owner.type.type.fullname}.{callee.name}" in _PADS:
                return self._padded(node)
        elif isinstance(callee, (NameExpr, MemberExpr)):
            if callee.fullname in BUILTINS:
                return BUILTINS[callee.fullname](reading, node)
            if callee.fullname.startswith(EINOPS):
                operation = EINOPS_FUNCTIONS.get(callee.fullname.rpartition(".")[2])
                return self._operation(node, operation, (), torch=True) if operation is not None else None
            name = _function(callee) or ""
            if name in FUNCTIONS:
                return self._operation(node, FUNCTIONS[name], (), torch=_is_torchs(callee))
            if callee.fullname in PYTHONS:
                return PYTHONS[callee.fullname](reading, node)
            if callee.fullname in _PADS:
                return self._padded(node)
            if callee.fullname in _CONVERTS:
                return self._converted_batch(node, extended=_CONVERTS[callee.fullname])
        else:
            reading.read(callee)
        return self._of_users(node)

    def _of_distribution(self, node: CallExpr) -> Value:
        """Return a new distribution, or the divergence of two; None for any other call."""
        name = node.callee.fullname if isinstance(node.callee, RefExpr) else ""
        if not name.startswith(HOME):
            return None
        construct = divergence if name == KL else CONSTRUCTORS.get(name.rpartition(".")[2])
        return self._operation(node, construct, (), torch=True) if construct is not None else None

    def _is_generator(self, node: Expression) -> bool:
        """Is it a generator of numpy's, or ``numpy.random`` itself."""
        if isinstance(node, RefExpr) and isinstance(node.node, MypyFile):
            return node.node.fullname == "numpy.random"
        type_ = get_proper_type(self._reading.type_of(node))
        return isinstance(type_, Instance) and type_.type.fullname in OWNERS

    # ---- operations -----------------------------------------------------------------------------------------------

    def _method(self, node: CallExpr, array: Array, name: str) -> Value:
        if name in RESHAPED_IN_PLACE:
            self._arguments(node, (), torch=array.torch)
            self._reading.known.forget_arrays()
            return array.shaped(None)
        if name in CONVERSIONS:
            arguments = self._arguments(node, (array,), torch=array.torch)
            return array.typed(None) if arguments is None else CONVERSIONS[name](arguments)
        operation = METHODS.get(name)
        if operation is None:
            self._arguments(node, (), torch=array.torch)
            return None
        return self._operation(node, operation, (array,), torch=array.torch)

    def _operation(
        self, node: CallExpr, operation: Callable[[Arguments], Value], given: tuple[Value, ...], *, torch: bool
    ) -> Value:
        arguments = self._arguments(node, given, torch=torch)
        if arguments is None:
            return None
        return self._reading.tried(lambda: operation(arguments))

    def _arguments(self, node: CallExpr, given: tuple[Value, ...], *, torch: bool) -> Arguments | None:
        """The arguments; None if some are behind a ``*``."""
        by_place, by_name, certain = list(given), {}, True
        for argument, kind, name in zip(node.args, node.arg_kinds, node.arg_names, strict=True):
            value = self._with_arrays(self._reading.read(argument))
            if name == "out" and isinstance(argument, NameExpr):
                self._reading.known.put(argument.node, None)  # it may be given another shape
            if kind == ARG_POS:
                by_place.append(value)
            elif kind == ARG_NAMED and name is not None:
                by_name[name] = value
            elif kind == ARG_STAR and isinstance(value, Several):
                by_place += value.items
            else:
                certain = False
        return Arguments(tuple(by_place), by_name, torch) if certain else None

    def _with_arrays(self, value: Value) -> Value:
        """A list of arrays that was filled by ``append``, as the tables know it; any other value as it is."""
        whole = self._reading.known.objects.whole(value)
        items = list(whole.values()) if isinstance(whole, Items) and not whole.keyed and not whole.escaped else []
        if not isinstance(whole, Items) or not items or not all(isinstance(item, Array) for item in items):
            return value
        return (
            Several(tuple(items), listed=True) if whole.others is NOTHING else Many(self._reading.known.joined(items))
        )

    # ---- functions and classes of users ---------------------------------------------------------------------------

    def _of_users(self, node: CallExpr) -> Value:
        """Return what is declared of the result of a function or class of the user's."""
        return self._by_declaration(node, {argument: self._reading.read(argument) for argument in node.args})

    def _by_declaration(self, node: CallExpr, given: dict[Expression, Value]) -> Value:
        """Return what is declared of a result, once each argument is held against what is declared of it."""
        reading = self._reading
        function = called(node)
        summary = reading.summary_of(function) if function is not None else None
        owner_called = self._class_called(node) if function is None else None
        type_ = get_proper_type(reading.type_of(node.callee))
        if isinstance(type_, Instance):
            type_ = _forward(type_) or get_proper_type(member_of(type_, "__call__"))
        if not isinstance(type_, CallableType) or not _is_as_written(node, type_):
            for argument, _, expected in _pairs(node, type_) if isinstance(type_, CallableType) else ():
                self._judge(argument, given[argument], expected)
            if summary is not None:
                return self._summed_up(node, summary, given)
            returned = self._of_method(node, owner_called, given)
            self._reading.known.objects.escape(*given.values(), opened=True)
            return self._rows(node) if returned is None and _gives_rows(owner_called) else returned
        sizes: dict[str, Size | None] = {}
        owner = Record(get_proper_type(type_.ret_type), reading.known.scope(node), sizes, called=True)
        returned = self._of_method(node, owner_called, given)
        if not reading.untyped:
            check_arguments(reading, node, _pairs(node, type_))
        self._bind(node, type_, owner, sizes, summary, given)
        made = self._summed_up(node, summary, given) if summary is not None else returned
        if made is not None and not (isinstance(made, Ref) and is_array(type_.ret_type)):
            return made
        if type_.is_type_obj() and isinstance(owner.type, Instance):
            return replace(owner, called=False, reshaped=_is_row(node, type_, owner, given))
        if _returns_variable(type_):
            return reading.known.of_type(type_.ret_type, (node, "result"))
        result = reading.known.declared(type_.ret_type, owner, (node, "result"))
        if summary is not None and isinstance(result, Ref) and any(isinstance(value, Ref) for value in given.values()):
            reading.known.objects.change(result, lambda held: replace(held, rest=Rest.OPEN))  # it may be one of these
        return result

    def _rows(self, node: CallExpr) -> Value:
        """Return what a method of a buffer or collector gives."""
        known, type_ = self._reading.known, self._reading.type_of(node)
        if type_ is None:
            return None
        return _one_axis_of_steps(known.declared(type_, Record(type_, known.scope(node)), (node, "result")))

    def _class_called(self, node: CallExpr) -> TypeInfo | None:
        """Return the class whose method is called."""
        callee = node.callee
        return self._reading.class_of(callee.expr) if isinstance(callee, MemberExpr) else None

    def _of_method(self, node: CallExpr, owner: TypeInfo | None, given: Mapping[Expression, Value]) -> Value:
        """Report fields that a method reads of batches which do not have them; return the batch that it returns.

        The method of a derived class may read others, and its batch may have any other field.
        """
        callee, tree = node.callee, module_around(self._reading.api)
        if owner is None or tree is None or not isinstance(callee, MemberExpr):
            return None
        method = method_of(owner, callee.name)
        summary = self._reading.summary_of(method) if method is not None else None
        values = bound_values(node, summary.function, given, of_method=True) if summary is not None else None
        if summary is None or values is None:
            return None
        application = Application(self._reading, node, summary, values)
        if not is_overridden(owner, callee.name, tree):
            application.check()
        returned = application.returned()
        objects = self._reading.known.objects
        if not isinstance(returned, Ref) or not isinstance(objects.whole(returned), Content):
            return None
        for one in list(objects.reachable([returned])):
            made = objects.of(one)
            if isinstance(made, Content):
                objects.put(one, replace(made.held(), rest=Rest.OPEN))
        return returned

    def _summed_up(self, node: CallExpr, summary: Summary, given: dict[Expression, Value]) -> Value:
        """Do what a function does that is known; return what it returns."""
        values = bound_values(node, summary.function, given)
        if values is None:
            self._reading.known.objects.escape(*given.values(), opened=True)
            return None
        return Application(self._reading, node, summary, values).apply()

    def _bind(
        self,
        node: CallExpr,
        type_: CallableType,
        owner: Record,
        sizes: dict[str, Size | None],
        summary: Summary | None,
        given: Mapping[Expression, Value],
    ) -> None:
        """Hold each argument against what is declared of it; the names mean the same in one call."""
        is_row = _is_row(node, type_, owner, given)
        for argument, name, expected in _pairs(node, type_):
            value = given[argument]
            self._judge(argument, value, expected)
            if isinstance(value, Ref):
                self._hand_over(argument, value, expected, type_ if summary is None else None)
                continue
            if summary is None:
                self._reading.known.objects.escape(value, opened=True)
            declared = declared_by(expected) if expected is not None else None
            if expected is None and name is not None and type_.is_type_obj() and is_batch(type_.type_object()):
                declared = field_declared(owner, name)
            if declared is None or not isinstance(value, Array):
                continue
            with suppress(MismatchError):  # A run of the program reports it.
                bind(replace(declared, shape=None) if is_row else declared, value, owner, sizes)

    def _judge(self, argument: Expression, value: Value, expected: Type | None) -> None:
        """Report a batch that lacks what a function asks for."""
        asked = asked_protocol(expected)
        if asked is not None:
            self._reading.batches.judge.hand_over(argument, value, asked)

    def _hand_over(self, argument: Expression, value: Ref, expected: Type | None, type_: CallableType | None) -> None:
        """A batch goes to a function; if ``type_`` is given, one that may do anything with it."""
        if type_ is not None and not only_reads(expected) and not is_of_libraries(type_):
            self._reading.known.objects.escape(value, opened=True)

    def _padded(self, node: CallExpr) -> Value:
        """The sequences of a batch side by side."""
        self._arguments(node, (), torch=False)
        result = get_proper_type(self._reading.type_of(node))
        scope = self._reading.known.scope(node)
        return Record(result, scope, reshaped=True) if isinstance(result, Instance) else None

    def _converted_batch(self, node: CallExpr, *, extended: bool) -> Value:
        """``convert(batch, Other)`` and ``extend(batch, Other, ...)``: the sizes are those of the batch."""
        values = [self._reading.read(argument) for argument in node.args]
        result = get_proper_type(self._reading.type_of(node))
        if values and isinstance(result, Instance) and isinstance(values[0], Ref):
            needed = needed_from(node, result.type, extends=extended)
            what = f"{'extend' if extended else 'convert'}() to {result.type.name}"
            self._reading.batches.judge.fill(node, values[0], needed, what)
        if not values or not isinstance(values[0], Record) or not isinstance(result, Instance):
            return None
        return Record(result, values[0].scope, dict(values[0].sizes), values[0].other, values[0].reshaped)

    def set_field(self, target: MemberExpr, owner: Value, value: Value) -> None:
        """``batch.name = value``."""
        if isinstance(owner, Record):
            self._reading.known.forget_names_of(owner.scope)
        elif isinstance(owner, Array) and target.name in ("shape", "data", "dtype", "strides"):
            self._reading.known.forget_arrays()

    # ---- batches --------------------------------------------------------------------------------------------------

    def _of_batch(self, node: CallExpr, owner: Record, name: str) -> Value:
        reading = self._reading
        if name in _SPLITS:
            self._arguments(node, (), torch=False)
            return Many(Record(owner.type, reading.known.scope(node), {}, owner, owner.reshaped))
        if name in _SAME_ROWS:
            self._arguments(node, (), torch=False)
            result = get_proper_type(reading.type_of(node))
            return replace(owner, type=result) if isinstance(result, Instance) else None
        return None


_PADS = {"typedbatch.sequences.pad", "typedbatch.ragged.Ragged.padded"}
_CONVERTS = {"typedbatch._validation.validate.extend": True, "typedbatch._validation.convert.convert": False}


def _full_name(callee: Expression) -> str:
    """The name of a function, class, or static method of a class; empty for everything else."""
    if isinstance(callee, MemberExpr) and isinstance(callee.expr, RefExpr) and isinstance(callee.expr.node, TypeInfo):
        return f"{callee.expr.fullname}.{callee.name}"
    return callee.fullname if isinstance(callee, RefExpr) else ""


def _is_module(node: Expression) -> bool:
    return isinstance(node, RefExpr) and isinstance(node.node, MypyFile)


def _function(callee: NameExpr | MemberExpr) -> str | None:
    """The name of a function of numpy's or torch's; None for all others."""
    if isinstance(callee, MemberExpr):
        module = callee.expr.node.fullname if isinstance(callee.expr, RefExpr) and callee.expr.node is not None else ""
        return callee.name if module in _WRITTEN else None
    home = callee.fullname.rpartition(".")[0]
    inside = home in _HOMES or home.startswith(_INSIDE)
    return callee.fullname.rpartition(".")[2] if inside else None


def _is_torchs(callee: NameExpr | MemberExpr) -> bool:
    if isinstance(callee, MemberExpr) and isinstance(callee.expr, RefExpr) and callee.expr.node is not None:
        return callee.expr.node.fullname.startswith("torch")
    return callee.fullname.startswith("torch")


def is_followed(node: CallExpr) -> bool:
    """Is it a call of a function that has a table, which does nothing to the lists that it is given."""
    callee = node.callee
    if not isinstance(callee, (NameExpr, MemberExpr)):
        return False
    module = isinstance(callee, NameExpr) or _is_module(callee.expr)
    return callee.fullname in PYTHONS or (module and (_function(callee) or "") in FUNCTIONS)


def _is_as_written(node: CallExpr, type_: CallableType) -> bool:
    """Is it a function or class itself: what ``vmap(f)`` takes is not what ``f`` was declared to take."""
    return isinstance(node.callee, RefExpr) and (type_.is_type_obj() or type_.definition is not None)


def _gives_rows(owner: TypeInfo | None) -> bool:
    """Is it a buffer or collector of this library, which gives one row for each step."""
    return owner is not None and any(base.fullname.startswith(_OF_ROWS) for base in owner.mro)


def _one_axis_of_steps(value: Value) -> Value:
    """Return the records in a value as batches whose steps have one axis."""
    if isinstance(value, Record):
        return replace(value, sizes={**value.sizes, STEPS.key: number(1)})
    return Several(tuple(map(_one_axis_of_steps, value.items))) if isinstance(value, Several) else value


def _returns_variable(type_: CallableType) -> bool:
    """Return whether a result is declared by a type variable, which says nothing of its shape."""
    written: Any = getattr(type_.definition, "type", None)
    return isinstance(written, CallableType) and not has_no_typevars(written.ret_type)


def _is_row(node: CallExpr, type_: CallableType, owner: Record, given: Mapping[Expression, Value]) -> bool:
    """Return whether a record is made of one row: no field has the axis of the rows that all declare."""
    if not type_.is_type_obj() or not is_batch(type_.type_object()):
        return False
    ranks: list[tuple[Shape, int]] = []
    for argument, name, _ in _pairs(node, type_):
        declared, value = field_declared(owner, name) if name is not None else None, given[argument]
        if declared is not None and declared.shape is not None and isinstance(value, Array) and value.axes is not None:
            ranks.append((declared.shape, len(value.axes)))
    return all(shape.has_rank(rank + 1) for shape, rank in ranks) and not all(starmap(Shape.has_rank, ranks))


def _forward(type_: Instance) -> CallableType | None:
    """What calling a module of torch's calls: its ``forward``, if that is declared."""
    found = type_.type.get("forward") if type_.type.has_base("torch.nn.modules.module.Module") else None
    node: Any = found.node if found is not None else None
    signature = node.type if isinstance(node, FuncBase) else None
    if not isinstance(signature, CallableType) or not signature.arg_types:
        return None
    return signature.copy_modified(
        arg_types=signature.arg_types[1:], arg_kinds=signature.arg_kinds[1:], arg_names=signature.arg_names[1:]
    )


def _pairs(node: CallExpr, type_: CallableType) -> list[tuple[Expression, str | None, Type | None]]:
    """Each argument, with the name and the type of what takes it; None where that cannot be told."""
    out: list[tuple[Expression, str | None, Type | None]] = []
    places = [at for at, kind in enumerate(type_.arg_kinds) if kind in (ARG_POS, ARG_OPT)]
    by_name = {name: at for at, name in enumerate(type_.arg_names) if name is not None}
    at, certain = 0, True
    for argument, kind, name in zip(node.args, node.arg_kinds, node.arg_names, strict=True):
        found: int | None = None
        if kind == ARG_POS and certain:
            found = places[at] if at < len(places) else None
            at += 1
        elif kind == ARG_NAMED:
            found = by_name.get(name or "")
        else:
            certain = False
        taker = None if found is None or type_.arg_kinds[found].is_star() else found
        out.append((argument, name if taker is None else type_.arg_names[taker], _taken(type_, taker)))
    return out


def _taken(type_: CallableType, taker: int | None) -> Type | None:
    return None if taker is None else type_.arg_types[taker]
