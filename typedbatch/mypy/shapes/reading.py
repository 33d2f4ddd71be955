"""What each expression of a program is, as far as shapes go: values are found from the inside to the outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy import nodes
from mypy.nodes import Context, Expression, MypyFile, RefExpr, TypeInfo, Var

from typedbatch.mypy.internals import known_type
from typedbatch.mypy.shapes import indexing
from typedbatch.mypy.shapes.calling import Calls
from typedbatch.mypy.shapes.declared import array_of, is_array
from typedbatch.mypy.shapes.dtypes import INTS, dtype_named, is_in, of_python
from typedbatch.mypy.shapes.elementwise import BITS, binary, invert
from typedbatch.mypy.shapes.known import Known, field_declared
from typedbatch.mypy.shapes.products import matmul
from typedbatch.mypy.shapes.report import Report
from typedbatch.mypy.shapes.sizes import Size, number
from typedbatch.mypy.shapes.tables import ATTRIBUTES
from typedbatch.mypy.shapes.values import (
    Arguments,
    Array,
    DType,
    Literal,
    Many,
    MisfitError,
    Record,
    Several,
    Span,
    Value,
    item_of,
    join,
)

NOTHING = Literal(None)
_TYPED = (nodes.CallExpr, nodes.OpExpr, nodes.IndexExpr, nodes.ComparisonExpr)
_NAMED_RESULTS = {"values": 0, "indices": 1}


class Reading:
    """Reads expressions of one function, on one way through it.

    Args:
        api: mypy's checker.
        report: what takes mistakes.
        known: what is known of names so far; assignments inside expressions go there.
    """

    def __init__(self, api: Any, report: Report, known: Known) -> None:
        self.api = api
        self.report = report
        self.known = known
        self.of_module = False
        """Whether this is the top of a module, whose names nothing else assigns to while it runs."""
        self.in_first_round: Callable[[], bool] = bool
        """Whether a loop is gone through for the first time, when a condition in it may not hold."""
        self._calls = Calls(self)
        self._kinds: dict[type[Expression], Callable[[Any], Value]] = {
            nodes.IntExpr: lambda node: number(node.value),
            nodes.FloatExpr: lambda node: Literal(node.value),
            nodes.StrExpr: lambda node: Literal(node.value),
            nodes.EllipsisExpr: lambda node: Literal(...),
            nodes.NameExpr: self._name,
            nodes.MemberExpr: self._member,
            nodes.IndexExpr: self._index,
            nodes.SliceExpr: self._slice,
            nodes.OpExpr: self._operator,
            nodes.UnaryExpr: self._unary,
            nodes.ComparisonExpr: self._comparison,
            nodes.CallExpr: self._calls.read,
            nodes.TupleExpr: lambda node: self._items(node, listed=False),
            nodes.ListExpr: lambda node: self._items(node, listed=True),
            nodes.ConditionalExpr: self._conditional,
            nodes.ListComprehension: lambda node: self._generator(node.generator),
            nodes.GeneratorExpr: self._generator,
            nodes.AssignmentExpr: self._walrus,
            nodes.DictExpr: self._dict,
            nodes.StarExpr: lambda node: self._inside(node.expr),
            nodes.AwaitExpr: lambda node: self._inside(node.expr),
        }

    def read(self, node: Expression) -> Value:
        """What an expression is; None if nothing is known. Mistakes in it are reported."""
        if isinstance(node, _TYPED) and known_type(self.api, node) is None:
            return None  # mypy has found that no run comes here
        kind = self._kinds.get(type(node))
        found = kind(node) if kind is not None else None
        if found is not None:
            return found
        type_ = known_type(self.api, node)
        return None if type_ is None else self.known.of_type(type_, node)

    def tried(self, node: Context, call: Callable[[], Value]) -> Value:
        """What an operation gives; a mistake is reported, and nothing is known of what comes out."""
        try:
            return call()
        except MisfitError as error:
            self.report.misfit(error, node)
            return None

    # ---- names and attributes -------------------------------------------------------------------------------------

    def _name(self, node: nodes.NameExpr) -> Value:
        if node.fullname in ("builtins.None", "builtins.True", "builtins.False"):
            return Literal({"None": None, "True": True, "False": False}[node.name])
        if isinstance(node.node, TypeInfo):
            dtypes = of_python(node.name, torch=False) if node.fullname.startswith("builtins.") else None
            return None if dtypes is None else DType(dtypes)
        found = self.known.get(node.node)
        if found is not None or not isinstance(node.node, Var):
            return found
        type_ = known_type(self.api, node)
        found = None if type_ is None else self.known.of_type(type_, node)
        if isinstance(found, (Size, Record)):
            self.known.put(node.node, found)  # until it is assigned to, it stays what it is
        return found

    def _member(self, node: nodes.MemberExpr) -> Value:
        module = module_of(node.expr)
        if module is not None:
            return self._of_module(module, node)
        owner = self.read(node.expr)
        if isinstance(owner, Array):
            return self.tried(node, lambda: self._of_array(owner, node.name))
        if isinstance(owner, Several) and node.name in _NAMED_RESULTS and len(owner.items) == 2:
            return owner.items[_NAMED_RESULTS[node.name]]
        if isinstance(owner, Record):
            declared = field_declared(owner, node.name)
            if declared is not None and is_array(known_type(self.api, node)):
                return array_of(declared, owner)
        return None

    def _of_module(self, module: str, node: nodes.MemberExpr) -> Value:
        torch = module == "torch"
        if not torch and module != "numpy":
            return None
        if node.name == "newaxis":
            return NOTHING
        dtypes = dtype_named(node.name, torch=torch)
        return None if dtypes is None else DType(dtypes)

    def _of_array(self, array: Array, name: str) -> Value:
        if name == "shape":
            return None if array.axes is None else Several(tuple(axis.size for axis in array.axes))
        if name == "ndim":
            return None if array.axes is None else number(len(array.axes))
        if name == "dtype":
            return None if array.dtypes is None else DType(array.dtypes)
        if name in ("data", "real", "imag", "grad"):
            return array if name == "data" else array.typed(None)
        operation = ATTRIBUTES.get(name)
        return None if operation is None else operation(Arguments((array,), torch=array.torch))

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _index(self, node: nodes.IndexExpr) -> Value:
        base, index = self.read(node.base), self.read(node.index)
        if isinstance(base, Array):
            return self.tried(node, lambda: indexing.take(base, index)) or base.shaped(None)
        if isinstance(base, Several):
            return _item_of(base, index)
        if isinstance(base, Many):
            return base.item if isinstance(index, Size) else base if isinstance(index, Span) else None
        if isinstance(base, Record):
            return self.known.rows_of(base, known_type(self.api, node), node)
        return None

    def _slice(self, node: nodes.SliceExpr) -> Value:
        parts = (node.begin_index, node.end_index, node.stride)
        return Span(*(NOTHING if part is None else self.read(part) for part in parts))

    def _items(self, node: nodes.TupleExpr | nodes.ListExpr, *, listed: bool) -> Value:
        out: list[Value] = []
        for item in node.items:
            value = self.read(item.expr if isinstance(item, nodes.StarExpr) else item)
            if not isinstance(item, nodes.StarExpr):
                out.append(value)
            elif isinstance(value, Several):
                out += value.items
            else:
                self._rest(node.items)
                return None
        return Several(tuple(out), listed)

    def _rest(self, items: list[Expression]) -> None:
        for item in items:
            self.read(item.expr if isinstance(item, nodes.StarExpr) else item)

    def _inside(self, node: Expression) -> Value:
        self.read(node)
        return None

    def _dict(self, node: nodes.DictExpr) -> Value:
        for key, value in node.items:
            if key is not None:
                self.read(key)
            self.read(value)
        return None

    # ---- operators ------------------------------------------------------------------------------------------------

    def _operator(self, node: nodes.OpExpr) -> Value:
        one = self._operand(node, node.left)
        guarded = node.op in ("and", "or") and self.in_first_round()
        self.report.quiet += guarded
        other = self._operand(node, node.right)
        self.report.quiet -= guarded
        if node.op in ("and", "or"):
            return join(one, other)
        return self.tried(node, lambda: operate(node.op, one, other))

    def _operand(self, node: nodes.OpExpr, operand: Expression) -> Value:
        """Beside ``&`` and ``|`` of integers, ``~`` is meant for bits."""
        if node.op not in BITS or not isinstance(operand, nodes.UnaryExpr) or operand.op != "~":
            return self.read(operand)
        self.report.quiet += 1
        beside = self.read(node.right if operand is node.left else node.left)
        self.report.quiet -= 1
        bits = isinstance(beside, Size) or (isinstance(beside, Array) and is_in(beside.dtypes, INTS))
        return self.read(operand.expr if bits else operand)

    def _unary(self, node: nodes.UnaryExpr) -> Value:
        value = self.read(node.expr)
        if isinstance(value, Array):
            if node.op == "~":
                return self.tried(node, lambda: invert(value)) or value.typed(None)
            return value if node.op in ("-", "+") else None
        if isinstance(value, Size) and node.op == "-":
            return -value
        return Literal(-value.value) if isinstance(value, Literal) and isinstance(value.value, float) else None

    def _comparison(self, node: nodes.ComparisonExpr) -> Value:
        values = [self.read(operand) for operand in node.operands]
        if len(values) != 2 or not any(isinstance(value, Array) for value in values):
            return None
        if node.operators[0] in ("in", "not in", "is", "is not"):
            return None
        return self.tried(node, lambda: binary(node.operators[0], values[0], values[1]))

    def _conditional(self, node: nodes.ConditionalExpr) -> Value:
        self.read(node.cond)
        self.report.quiet += self.in_first_round()
        out = join(self.read(node.if_expr), self.read(node.else_expr))
        self.report.quiet -= self.in_first_round()
        return out

    def _walrus(self, node: nodes.AssignmentExpr) -> Value:
        value = self.read(node.value)
        self.known.put(node.target.node, value)
        return value

    def _generator(self, node: nodes.GeneratorExpr) -> Value:
        for index, sequence, conditions in zip(node.indices, node.sequences, node.condlists, strict=True):
            self.bind(index, item_of(self.read(sequence)), index)
            for condition in conditions:
                self.read(condition)
        return Many(self.read(node.left_expr))

    # ---- targets --------------------------------------------------------------------------------------------------

    def bind(self, target: Expression, value: Value, source: Expression) -> None:
        """``target = value``, also ``a, b = value`` and ``x[i] = value``."""
        if isinstance(target, nodes.NameExpr):
            type_ = known_type(self.api, target)
            if value is None and type_ is not None:
                value = self.known.of_type(type_, target)
            inside = target.kind == nodes.LDEF or self.of_module
            self.known.put(target.node, value if inside else None)
        elif isinstance(target, nodes.TupleExpr | nodes.ListExpr):
            self._unpack(target, value, source)
        elif isinstance(target, nodes.StarExpr):
            self.bind(target.expr, None, source)
        elif isinstance(target, nodes.IndexExpr):
            base, index = self.read(target.base), self.read(target.index)
            if isinstance(base, Array):
                self.tried(target, lambda: indexing.assign(base, index, value))
        elif isinstance(target, nodes.MemberExpr):
            self._calls.set_field(target, value)

    def _unpack(self, target: nodes.TupleExpr | nodes.ListExpr, value: Value, source: Expression) -> None:
        items = target.items
        plain = not any(isinstance(item, nodes.StarExpr) for item in items)
        if isinstance(value, Several) and plain and len(value.items) == len(items):
            for item, part in zip(items, value.items, strict=True):
                self.bind(item, part, source)
            return
        each = item_of(value)
        for item in items:
            self.bind(item, None if isinstance(item, nodes.StarExpr) else each, source)


def operate(sign: str, one: Value, other: Value) -> Value:
    """An operator between two values.

    Raises:
        MisfitError: it certainly fails, or cannot be meant.
    """
    if sign == "@":
        return matmul(one, other)
    if isinstance(one, Array) or isinstance(other, Array):
        return binary(sign, one, other)
    if isinstance(one, Size) and isinstance(other, Size):
        return _of_sizes(sign, one, other)
    if sign == "+" and isinstance(one, Several) and isinstance(other, Several):
        return Several(one.items + other.items, one.listed)
    if sign == "*" and isinstance(one, Several) and isinstance(other, Size):
        return _repeated(one, other)
    return _repeated(other, one) if sign == "*" and isinstance(other, Several) and isinstance(one, Size) else None


def _of_sizes(sign: str, one: Size, other: Size) -> Value:
    if sign in ("//", "%"):
        if other.number == 0:
            return None
        return one // other if sign == "//" else one % other
    operations: dict[str, Callable[[], Size]] = {
        "+": lambda: one + other,
        "-": lambda: one - other,
        "*": lambda: one * other,
    }
    return operations[sign]() if sign in operations else None


def _repeated(items: Several, times: Size) -> Value:
    count = times.number
    if count is not None and 0 <= count * len(items.items) <= 64:
        return Several(items.items * count, items.listed)
    return Many(items.items[0]) if len(items.items) == 1 else None


def _item_of(base: Several, index: Value) -> Value:
    if isinstance(index, Size):
        at = index.number
        return base.items[at] if at is not None and -len(base.items) <= at < len(base.items) else None
    if isinstance(index, Span):
        bounds = [part.number if isinstance(part, Size) else None for part in (index.start, index.stop, index.step)]
        plain = [
            isinstance(part, Size) == (bound is not None) for part, bound in zip(_parts(index), bounds, strict=True)
        ]
        if all(plain) and all(isinstance(part, (Size, Literal)) for part in _parts(index)) and bounds[2] != 0:
            return Several(base.items[slice(*bounds)], base.listed)
    return None


def _parts(span: Span) -> tuple[Value, Value, Value]:
    return span.start, span.stop, span.step


def module_of(node: Expression) -> str | None:
    """``torch`` or ``numpy``, for a name that is one of these modules, or one inside; None for everything else."""
    if isinstance(node, RefExpr) and isinstance(node.node, MypyFile):
        return node.node.fullname
    return None
