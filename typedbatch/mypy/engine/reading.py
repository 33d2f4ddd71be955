"""What each expression of a program is, as far as shapes go: values are found from the inside to the outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mypy import nodes
from mypy.nodes import Expression, Node, TypeInfo, Var
from mypy.types import Instance, LiteralType, ProperType, TupleType, Type, get_proper_type

from typedbatch._program.arrays import indexing
from typedbatch._program.arrays.distributions import attribute
from typedbatch._program.arrays.dtypes import INTS, dtype_named, is_in, of_python
from typedbatch._program.arrays.elementwise import BITS, binary, invert
from typedbatch._program.arrays.held import array_of
from typedbatch._program.arrays.operators import operate
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.tables import attribute_of
from typedbatch._program.arrays.values import (
    Array,
    Distribution,
    DType,
    Layer,
    Layers,
    Literal,
    Many,
    MismatchError,
    Record,
    Scalar,
    Several,
    Span,
    Value,
    item_at,
    item_of,
    join,
    named_part,
)
from typedbatch.mypy.batches.content import NOTHING, Choice, Items, Ref
from typedbatch.mypy.batches.derived import anything, retyped
from typedbatch.mypy.batches.domain import Batches
from typedbatch.mypy.batches.needs import Needs
from typedbatch.mypy.batches.questions import taken
from typedbatch.mypy.batches.summaries import Summary
from typedbatch.mypy.declared import is_array
from typedbatch.mypy.engine.calling import Calls
from typedbatch.mypy.engine.comprehensions import generated
from typedbatch.mypy.engine.known import Known, field_declared
from typedbatch.mypy.engine.layered import is_fixed
from typedbatch.mypy.engine.names import module_of
from typedbatch.mypy.engine.report import Report
from typedbatch.mypy.engine.scopes import Scope, scope_of
from typedbatch.mypy.engine.ways import Ways
from typedbatch.mypy.internals import has_batches, known_type, module_around, outcomes
from typedbatch.mypy.nodes import children, nodes_in
from typedbatch.mypy.types.fields import alternatives

LEFT_OUT = Literal(None)
_TYPED = (nodes.CallExpr, nodes.OpExpr, nodes.IndexExpr, nodes.ComparisonExpr)
_PLAIN = ("builtins.float", "builtins.int", "builtins.bool")


class Reading:
    """Reads expressions of one function, on one way through it.

    Args:
        api: mypy's checker.
        report: what takes mistakes.
        known: what is known of names so far; assignments inside expressions go there.
        root: the function or module.
    """

    def __init__(self, api: Any, report: Report, known: Known, root: Node | None = None) -> None:
        self.api = api
        self.report = report
        self.known = known
        self.ways: Ways = Ways()
        self.catching = 0
        """The number of ``try`` and ``with`` around that handle a missing field."""
        self.untyped = False
        """Whether types are left out, as for a summary, which must not depend on what mypy has checked."""
        self.needs: Needs | None = None
        self.yielded: list[Value] = []
        self.generators = 0
        """The number of comprehensions around."""
        self.root = root
        self.batches: Batches = Batches(self)
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
            nodes.ListComprehension: lambda node: generated(self, node.generator),
            nodes.GeneratorExpr: partial(generated, self),
            nodes.AssignmentExpr: self._walrus,
            nodes.DictExpr: self._dict,
            nodes.LambdaExpr: self.capture,
            nodes.YieldExpr: self._yield,
            nodes.YieldFromExpr: self._yield,
            nodes.CastExpr: lambda node: self.read(node.expr),
            nodes.RevealExpr: lambda node: self.read(node.expr) if node.expr is not None else None,
        }

    def read(self, node: Expression) -> Value:
        """What an expression is; None if nothing is known. Mistakes in it are reported."""
        if isinstance(node, _TYPED) and not self.untyped and known_type(self.api, node) is None:
            return None  # mypy has found that no run comes here
        kind = self._kinds.get(type(node))
        found = kind(node) if kind is not None else self._other(node)
        if found is None:
            type_ = self.type_of(node)
            found = None if type_ is None else self.known.of_type(type_, node)
        question = None if self.untyped else taken(node)
        if question is not None:
            self.batches.judge.answer(node, found, question)
        self.report.see(node, found, self)
        return found

    def tried(self, call: Callable[[], Value]) -> Value:
        """Return what an operation gives; None if shapes do not fit, which a run of the program reports."""
        try:
            return call()
        except MismatchError:
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
        constant = self._constant(node)
        if constant is not None:
            return constant
        type_ = self.type_of(node)
        found = None if type_ is None else self.known.of_type(type_, node)
        if isinstance(found, (Size, Record, Ref)):
            self.known.put(node.node, found)  # until it is assigned to, it stays what it is
        return found

    def _constant(self, node: nodes.NameExpr) -> Size | None:
        """Return a whole number that the top of this file gives a name in capitals, once."""
        tree = module_around(self.api) if node.name.isupper() and node.kind == nodes.GDEF else None
        if tree is None:
            return None
        bindings = scope_of(self.api, tree).bindings_of(node.node)
        value = bindings[0].value if len(bindings) == 1 else None
        return number(value.value) if isinstance(value, nodes.IntExpr) else None

    def _member(self, node: nodes.MemberExpr) -> Value:
        module = module_of(node.expr)
        if module is not None:
            return self._of_module(module, node)
        owner = self.read(node.expr)
        if isinstance(owner, Ref):
            return self.batches.attribute(node, owner)
        if isinstance(owner, Array):
            return self.tried(lambda: attribute_of(owner, node.name))
        if isinstance(owner, Distribution):
            return attribute(owner, node.name)
        if isinstance(owner, Several) and (part := named_part(owner, node.name)) is not None:
            return part
        if isinstance(owner, Layer):
            return owner.attributes.get(node.name)
        if isinstance(owner, Record):
            declared = field_declared(owner, node.name)
            if declared is not None and (self.untyped or is_array(self.type_of(node))):
                return array_of(declared, owner, self.known.ranks, node.name.removesuffix("_next"))
        return None

    def _of_module(self, module: str, node: nodes.MemberExpr) -> Value:
        torch = module == "torch"
        if not torch and module != "numpy":
            return None
        if node.name == "newaxis":
            return LEFT_OUT
        dtypes = dtype_named(node.name, torch=torch)
        return None if dtypes is None else DType(dtypes)

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _index(self, node: nodes.IndexExpr) -> Value:
        base, index = self.read(node.base), self.read(node.index)
        if isinstance(base, Ref):
            return self.batches.item(node, base, index)
        if isinstance(base, Array):
            return self.tried(lambda: indexing.take(base, index)) or base.shaped(None)
        if isinstance(base, Several):
            return item_at(base, index)
        if isinstance(base, Layers) and isinstance(index, Literal):
            return base.by_name.get(index.value)
        if isinstance(base, Many):
            return base.item if isinstance(index, Size) else base if isinstance(index, Span) else None
        if isinstance(base, Record):
            return self.known.rows_of(base, self.type_of(node), node, index)
        return None

    def _slice(self, node: nodes.SliceExpr) -> Value:
        parts = (node.begin_index, node.end_index, node.stride)
        return Span(*(LEFT_OUT if part is None else self.read(part) for part in parts))

    def _items(self, node: nodes.TupleExpr | nodes.ListExpr, *, listed: bool) -> Value:
        out: list[Value] = []
        for item in node.items:
            value = self.read(item.expr if isinstance(item, nodes.StarExpr) else item)
            if not isinstance(item, nodes.StarExpr):
                out.append(value)
            elif isinstance(value, Several):
                out += value.items
            else:
                return self._some(node, [*out, self.item_of(value, item)])
        if listed and (not out or any(isinstance(value, Ref) for value in out)):
            return self.batches.make(node, Items(dict(enumerate(out)), NOTHING))
        return Several(tuple(out), listed)

    def _some(self, node: nodes.TupleExpr | nodes.ListExpr, values: list[Value]) -> Value:
        """A display with a star in it, of which each item may be any of the values."""
        values += [self.read(item) for item in node.items if not isinstance(item, nodes.StarExpr)]
        each = self.known.joined(values)
        return self.batches.make(node, Items({}, each)) if isinstance(each, Ref) else None

    def _other(self, node: Expression) -> Value:
        """What is inside of it goes where nobody sees it."""
        for child in children(node):
            if isinstance(child, Expression):
                self.known.objects.escape(self.read(child))
        return None

    def _yield(self, node: nodes.YieldExpr | nodes.YieldFromExpr) -> Value:
        value = self.read(node.expr) if node.expr is not None else None
        if isinstance(node, nodes.YieldFromExpr):
            value = self.item_of(value, node)
        if self.untyped:
            self.yielded.append(self.known.aged(value) if isinstance(value, Ref) else value)
        else:
            self.known.objects.escape(value)
        return None

    def _dict(self, node: nodes.DictExpr) -> Value:
        known: dict[Any, Any] = {}
        others: Any = NOTHING
        for key, value in node.items:
            name = self.read(key) if key is not None else None
            held = self.read(value)
            if key is None:
                whole = self.known.objects.whole(held)
                if isinstance(whole, Items) and whole.others is NOTHING and not whole.escaped:
                    known.update(whole.known)
                else:
                    self.known.objects.escape(held)
                    others = None
            elif isinstance(name, Literal) and isinstance(name.value, str):
                known[name.value] = held
            else:
                others = held if others is NOTHING else join(others, held)
        return self.batches.make(node, Items(known, others, keyed=True))

    # ---- batches --------------------------------------------------------------------------------------------------

    def arguments(self, node: nodes.CallExpr) -> list[Value]:
        """What each argument of a call is."""
        return [self.read(argument) for argument in node.args]

    def item_of(self, value: Value, node: Any) -> Value:
        """What a loop over a value has each time."""
        return self.batches.item_of(value, node) if isinstance(value, Ref) else item_of(value)

    def type_of(self, node: Expression) -> Type | None:
        """Mypy's type of an expression; None where the function is read without types."""
        return None if self.untyped else known_type(self.api, node)

    def class_of(self, node: Expression) -> TypeInfo | None:
        """Return the class of a value, by its type, or as ``self`` of a method."""
        type_ = get_proper_type(self.type_of(node))
        if isinstance(type_, Instance):
            return type_.type
        root = self.root
        if isinstance(root, nodes.FuncDef) and root.info and isinstance(node, nodes.NameExpr) and root.arguments:
            return root.info if node.node is root.arguments[0].variable else None
        return None

    def literal_text(self, node: Expression) -> str | None:
        """A text that is known by its type."""
        type_ = get_proper_type(self.type_of(node))
        if isinstance(type_, Instance) and type_.last_known_value is not None:
            type_ = type_.last_known_value
        return type_.value if isinstance(type_, LiteralType) and isinstance(type_.value, str) else None

    def is_text(self, node: Expression) -> bool:
        """Is it a text, for sure."""
        items = [get_proper_type(item) for item in alternatives(self.type_of(node))]
        texts = [item.fallback if isinstance(item, LiteralType) else item for item in items]
        return bool(texts) and all(isinstance(item, Instance) and item.type.has_base("builtins.str") for item in texts)

    def is_rows(self, node: Expression) -> bool:
        """Is an index certain to be no name."""
        if isinstance(node, (nodes.SliceExpr, nodes.IntExpr)):
            return True
        items = [get_proper_type(item) for item in alternatives(self.type_of(node))]
        items = [item.fallback if isinstance(item, LiteralType) else item for item in items]
        return bool(items) and all(isinstance(item, (Instance, TupleType)) and not _may_be_text(item) for item in items)

    def is_excused(self, name: str) -> bool:
        """Does the code know that a field of that name may be missing."""
        return bool(self.catching) or (self.root is not None and name in scope_of(self.api, self.root).asked)

    def always_follows(self, choice: Choice) -> bool:
        """Does every run that has passed a branch come to this line."""
        return not self.in_first_round() and self.ways.always_follows(choice)

    def summary_of(self, function: nodes.FuncDef) -> Summary | None:
        """What a function of this file does."""
        if self.report.summaries is None or not has_batches(self.api):
            return None
        return self.report.summaries.of(function)

    def is_certain(self) -> bool:
        """Does every run of the function come to this line."""
        return not self.report.quiet and self.ways.here() == (0, 0)

    def names_of_file(self) -> Scope | None:
        """What the file says of fields."""
        tree = module_around(self.api)
        return scope_of(self.api, tree) if tree is not None else None

    def conversion(self, batch: Expression) -> str:
        """The method of a batch that its value, or the only one that its name is given, is the result of."""
        if isinstance(batch, nodes.NameExpr) and self.root is not None:
            bindings = scope_of(self.api, self.root).bindings_of(batch.node)
            batch = bindings[0].value or batch if len(bindings) == 1 else batch
        callee = batch.callee if isinstance(batch, nodes.CallExpr) else None
        name = callee.name if isinstance(callee, nodes.MemberExpr) else ""
        return name if name in ("to_torch", "to_numpy") else ""

    def capture(self, function: nodes.FuncItem) -> None:
        """A function or lambda knows the names around it, and may be called at any time."""
        for inner in nodes_in(function):
            if isinstance(inner, nodes.NameExpr):
                self.known.objects.escape(self.known.get(inner.node))

    # ---- operators ------------------------------------------------------------------------------------------------

    def _operator(self, node: nodes.OpExpr) -> Value:
        one = self._operand(node, node.left)
        if node.op in ("and", "or"):
            goes_on = self._outcomes_of(node.left)[0 if node.op == "and" else 1]
            return join(one, self._perhaps(node.right)) if goes_on else one
        other = self._operand(node, node.right)
        if isinstance(one, Ref) or isinstance(other, Ref):
            return self._of_refs(node, one, other)
        return self.tried(lambda: operate(node.op, one, other))

    def _perhaps(self, node: Expression) -> Value:
        """What an operand is that only some runs come to."""
        guarded = self.in_first_round()
        self.report.quiet += guarded
        before = self.known.copy()
        with self.ways.inside():
            value = self.read(node)
        self.known.objects.merge(before.objects.contents)
        self.report.quiet -= guarded
        return value

    def _is_items(self, value: Value) -> bool:
        return isinstance(value, Ref) and isinstance(self.known.objects.whole(value), Items)

    def _of_refs(self, node: nodes.OpExpr, one: Value, other: Value) -> Value:
        """What an operator makes of a batch or list."""
        lists = [self.known.objects.whole(value) for value in (one, other) if self._is_items(value)]
        if lists:
            values = [value for whole in lists for value in whole.values()]
            return self.batches.make(node, Items({}, self.known.joined(values, NOTHING), any(w.escaped for w in lists)))
        change = retyped if all(isinstance(value, (Ref, Size, Literal, Scalar)) for value in (one, other)) else anything
        return self.batches.copy(one if isinstance(one, Ref) else other, node, change)

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
        if isinstance(value, Ref):
            return None if node.op == "not" else self.batches.copy(value, node, retyped)
        if isinstance(value, Array):
            if node.op == "~":
                return self.tried(lambda: invert(value)) or value.typed(None)
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
        return self.tried(lambda: binary(node.operators[0], values[0], values[1]))

    def _outcomes_of(self, condition: Expression) -> tuple[bool, bool]:
        """Return whether a condition may hold, and whether it may not."""
        return (True, True) if self.untyped else outcomes(self.api, condition)

    def _conditional(self, node: nodes.ConditionalExpr) -> Value:
        self.read(node.cond)
        holds, fails = self._outcomes_of(node.cond)
        if not (holds and fails):
            return self.read(node.if_expr if holds else node.else_expr)
        self.report.quiet += self.in_first_round()
        with self.ways.inside():
            before = self.known.copy()
            one = self.read(node.if_expr)
            after = self.known.copy()
            self.known.become(before)
            other = self.read(node.else_expr)
        self.known.objects.merge(after.objects.contents)
        self.report.quiet -= self.in_first_round()
        out = join(one, other)
        if isinstance(out, Ref) and isinstance(one, Ref) and isinstance(other, Ref):
            out = Ref(out.objects, Choice(node.line, *self.ways.here()))
        return out

    def _walrus(self, node: nodes.AssignmentExpr) -> Value:
        value = self.read(node.value)
        self.known.put(node.target.node, None if self.generators else value)
        return value

    # ---- targets --------------------------------------------------------------------------------------------------

    def bind(self, target: Expression, value: Value, source: Expression) -> None:
        """``target = value``, also ``a, b = value`` and ``x[i] = value``."""
        self.report.see(target, value, self, is_target=True)
        if isinstance(target, nodes.NameExpr):
            type_ = self.type_of(target)
            if value is None and type_ is not None:
                value = self.known.of_type(type_, target)
            inside = target.kind == nodes.LDEF or self.of_module
            if not inside:
                self.known.objects.escape(value)
            self.known.put(target.node, value if inside else None)
        elif isinstance(target, nodes.TupleExpr | nodes.ListExpr):
            self._unpack(target, value, source)
        elif isinstance(target, nodes.StarExpr):
            self.bind(target.expr, None, source)
        elif isinstance(target, nodes.IndexExpr):
            base, index = self.read(target.base), self.read(target.index)
            if is_fixed(base):
                self.known.forget_layers()
            if isinstance(base, Ref):
                self.batches.set_item(target, base, index, value)
                return
            self.known.objects.escape(value)
            if isinstance(base, Array):
                self.tried(lambda: indexing.assign(base, index, value))
        elif isinstance(target, nodes.MemberExpr):
            owner = self.read(target.expr)
            if isinstance(owner, Ref):
                self.batches.set_field(target, owner, target.name, value)
                return
            self.known.objects.escape(value)
            self._calls.set_field(target, owner, value)

    def _unpack(self, target: nodes.TupleExpr | nodes.ListExpr, value: Value, source: Expression) -> None:
        items = target.items
        plain = not any(isinstance(item, nodes.StarExpr) for item in items)
        if isinstance(value, Several) and plain and len(value.items) == len(items):
            for item, part in zip(items, value.items, strict=True):
                self.bind(item, part, source)
            return
        each = self.item_of(value, source)
        for item in items:
            if isinstance(item, nodes.StarExpr):
                rest = self.batches.make(item, Items({}, each)) if isinstance(each, Ref) else None
                self.bind(item.expr, rest, source)
            else:
                self.bind(item, each, source)


def _may_be_text(item: ProperType) -> bool:
    return isinstance(item, Instance) and (
        item.type.has_base("builtins.str") or item.type.fullname == "builtins.object"
    )
