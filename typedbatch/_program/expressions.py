"""Expressions and their values."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, Final

from typedbatch._program import array_members, operations, shapes
from typedbatch._program.arrays.sizes import Size
from typedbatch._program.arrays.values import Span
from typedbatch._program.classes import PLAIN_BASES, attribute_of, base_names, lineage
from typedbatch._program.comprehensions import Comprehensions
from typedbatch._program.containers import update
from typedbatch._program.frames import Call
from typedbatch._program.heap import BatchObject, DictObject, InstanceObject, ListObject, ScopeObject
from typedbatch._program.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    Array,
    Atom,
    Class,
    Code,
    External,
    Function,
    Literal,
    Member,
    Method,
    Module,
    Ref,
    Result,
    Shaped,
    Super,
    Value,
    constant,
    is_numeric,
    literal_of,
    text_of,
    union,
)  # fmt: skip
from typedbatch._program.vocabulary import last_name

_USING: Final = frozenset({
    "all", "any", "cat", "deque", "dict", "enumerate", "extend", "filter", "from_rows", "join", "list", "map", "max",
    "min", "next", "reversed", "run", "run_until_complete", "set", "sorted", "stack", "sum", "tqdm", "tuple", "update",
    "wait_for", "zip",
})  # fmt: skip
"""Names of functions that run a generator or coroutine at once, or as a loop around them does."""
_ORDERS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Gt: gt, ast.GtE: ge, ast.Lt: lt, ast.LtE: le,
}  # fmt: skip


class Expressions(Comprehensions):
    """A run that evaluates expressions."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._codes: dict[ast.AST, Code] = {}
        self._evaluators: dict[type[ast.expr], Callable[[Any], Value]] = {
            ast.Attribute: self._attribute,
            ast.Await: lambda node: self.evaluate(node.value),
            ast.BinOp: self._operation,
            ast.BoolOp: self._bool,
            ast.Call: self._call_expression,
            ast.Compare: self._compare,
            ast.Constant: _constant,
            ast.Dict: self._dict,
            ast.DictComp: self.dict_comprehension,
            ast.GeneratorExp: self.comprehension,
            ast.IfExp: self._if,
            ast.JoinedStr: self._joined_text,
            ast.Lambda: self._lambda,
            ast.List: self._display,
            ast.ListComp: self.comprehension,
            ast.Name: lambda node: self.lookup(node.id),
            ast.NamedExpr: self._named,
            ast.Set: self._display,
            ast.SetComp: self.comprehension,
            ast.Slice: self._slice,
            ast.Subscript: self._subscript,
            ast.Tuple: self._display,
            ast.UnaryOp: self._unary,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield_from,
        }

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        if not self.is_alive():
            return UNKNOWN
        self.step()
        evaluator = self._evaluators.get(type(node))
        if evaluator is not None:
            return evaluator(node) or UNKNOWN
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        return UNKNOWN

    def code_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Code:
        """Return the definition of a function, which is one however often the run comes to it."""
        code = self._codes.get(node)
        if code is None:
            code = self._codes[node] = Code(node, self.frame.source, name)
        return code

    def _lambda(self, node: ast.Lambda) -> Value:
        code = self.code_of(node, "<lambda>")
        return (Function(code, self.with_defaults(code, self.frame.scope)),)

    def with_defaults(self, code: Code, scope: Ref) -> Ref:
        """Return the scope around a function, with the defaults of its parameters as they are where it is defined."""
        args = code.node.args
        positional = [*args.posonlyargs, *args.args]
        pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
        pairs += [(one, node) for one, node in zip(args.kwonlyargs, args.kw_defaults, strict=True) if node]
        if not pairs:
            return scope
        defaults = {f".{parameter.arg}": self.evaluate(node) for parameter, node in pairs}
        inner = self.scope(scope)
        self.write_scope(inner).names.update(defaults)
        return inner

    def lookup(self, name: str) -> Value:
        """Return the value of a name."""
        scope: Ref | None = self.frame.scope
        while scope is not None:
            found = self.heap.read(scope)
            if not isinstance(found, ScopeObject):
                return UNKNOWN
            if name in found.names:
                value = found.names[name]
                is_text = len(value) == 1 and isinstance(value[0], Literal) and isinstance(value[0].value, str)
                return UNKNOWN if is_text and self.is_doubted((scope, name)) else value
            scope = found.parent
        if name == "__name__":
            return constant("__main__")
        if name == "reveal_type":  # Type checkers know it without an import.
            return (External("typing.reveal_type"),)
        return (External(f"builtins.{name}"),) if hasattr(builtins, name) else UNKNOWN

    def tested(self, test: ast.expr) -> bool | None:
        """Evaluate a test, and return whether it holds, or None if it may or may not."""
        value = self.evaluate(test)
        self.call_first_special(value, ("__bool__", "__len__"), test)
        truth = self.truth(value)
        truth = self.decided(test) if truth is None and self.is_alive() else truth
        if truth is None:
            self.forget_asked(test)
            if isinstance(shapes.lift(self, value), Size):
                operations.take_question(self, value)
        return truth

    def forget_asked(self, test: ast.expr) -> None:
        """Take it that arrays of which a test asks the number of axes or the dtype may be any others."""
        for asked in self.question(test).arrays:
            if isinstance(asked, ast.Name) and (scope := self.scope_of(asked.id)) is not None:
                if any(isinstance(atom, Shaped) for atom in self.lookup(asked.id)):
                    self.write_scope(scope).names[asked.id] = ARRAY
            elif isinstance(asked, ast.Attribute) and self.is_alive():
                with self.silently():
                    owner, value = self.evaluate(asked.value), self.evaluate(asked)
                    if any(isinstance(atom, Shaped) for atom in value):
                        self.set_attribute(owner, asked.attr, ARRAY, asked)

    def truth(self, value: Value) -> bool | None:
        """Return whether a value is true, or None if it may be either."""
        found = {self._truth_of(atom) for atom in value}
        return found.pop() if len(found) == 1 else None

    def _truth_of(self, atom: Atom) -> bool | None:
        if isinstance(atom, Literal):
            return bool(atom.value)
        found = self.object_at(atom)
        if isinstance(found, InstanceObject):
            has_own = attribute_of(found.owner, "__len__") or attribute_of(found.owner, "__bool__")
            return None if has_own or base_names(found.owner) - PLAIN_BASES else True
        if isinstance(found, ListObject) and found.items is not None:
            return bool(found.items)
        if isinstance(found, DictObject) and found.is_exact:
            return bool(found.items)
        return True if isinstance(atom, (Function, Method, Class, Module)) else None

    # Reads

    def _attribute(self, node: ast.Attribute) -> Value:
        value = self.evaluate(node.value)
        return self._chosen(node, self.attribute(value, node.attr, node)) if self.is_alive() else UNKNOWN

    def _subscript(self, node: ast.Subscript) -> Value:
        value, index = self.evaluate(node.value), self.evaluate(node.slice)
        if not self.is_alive():
            return UNKNOWN
        taken = array_members.item(self, value, index, node)
        return self._chosen(node, self.item(value, index, node.slice, node)) if taken is None else taken

    def _chosen(self, node: ast.Attribute | ast.Subscript, value: Value) -> Value:
        """Return what is read of a variable, and anything for a text if a condition around may choose among these."""
        if text_of(value) is None or not isinstance(node.value, ast.Name):
            return value
        scope = self.scope_of(node.value.id)
        return UNKNOWN if scope is not None and self.is_doubted((scope, node.value.id)) else value

    def _slice(self, node: ast.Slice) -> Value:
        bounds = [NONE if one is None else self.evaluate(one) for one in (node.lower, node.upper, node.step)]
        return (Shaped(Span(*(shapes.lift(self, bound) for bound in bounds))),)

    # Displays

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        self.keeps(*node.elts)
        items: list[Value] = []
        others: Value = ()
        is_known = True
        for child in node.elts:
            if not isinstance(child, ast.Starred):
                items.append(self.evaluate(child))
                continue
            known, element = self.iterate(self.evaluate(child.value), node)
            if known is None:
                is_known, others = False, union(others, element)
            else:
                items += known
        if not self.is_alive():
            return UNKNOWN
        for item in items if isinstance(node, ast.Set) else ():
            operations.take_question(self, item)
        return self.list_of(items if is_known else None, union(others, *items), is_tuple=isinstance(node, ast.Tuple))

    def _dict(self, node: ast.Dict) -> Value:
        self.keeps(*node.values)
        made = self.dict_of({})
        ref = made[0]
        assert isinstance(ref, Ref)
        for key, child in zip(node.keys, node.values, strict=True):
            value = self.evaluate(child)
            name = self.evaluate(key) if key is not None else ()
            if not self.is_alive():
                return UNKNOWN
            if key is None:
                update(self, ref, value)
            else:
                self._set_in_container(ref, name, value, is_only=True)
        return made

    def _joined_text(self, node: ast.JoinedStr) -> Value:
        parts: list[str | None] = []
        for child in node.values:
            if isinstance(child, ast.FormattedValue):
                value = self.evaluate(child.value)
                self.call_first_special(value, ("__format__", "__str__", "__repr__"), child)
                text = text_of(value)
                parts.append(text if child.format_spec is None and child.conversion == -1 else None)
            else:
                parts.append(text_of(self.evaluate(child)))
        known = [part for part in parts if part is not None]
        return constant("".join(known)) if len(known) == len(parts) else UNKNOWN

    # Conditions and operators

    def _if(self, node: ast.IfExp) -> Value:
        truth = self.tested(node.test)
        if truth is not None:
            return self.evaluate(node.body if truth else node.orelse)
        if not self.is_alive():
            return UNKNOWN
        guards, found, ends = self.guards, [], []
        for child in (node.body, node.orelse):
            mark = self.heap.begin()
            self.guard(node.test, holds=child is node.body)
            found.append(self.evaluate(child))
            self.guards = guards
            ends.append(self.heap.end(mark))
        self.heap.apply(self.heap.join(ends[0], ends[1], self.condition(node)))
        return union(*found)

    def _bool(self, node: ast.BoolOp) -> Value:
        guards, ends_at = self.guards, isinstance(node.op, ast.Or)
        values: list[Value] = []
        truth: bool | None = True
        for at, child in enumerate(node.values):
            mark = self.heap.begin() if at else 0
            if truth is None:
                self.guard(node.values[at - 1], holds=not ends_at)
            value = self.evaluate(child)
            if at:
                self.heap.apply(self.heap.join({}, self.heap.end(mark)))
            truth = self.truth(value)
            truth = self.decided(child) if truth is None else truth
            if truth is None or truth == ends_at or at == len(node.values) - 1:
                values.append(value)
            if truth is ends_at:
                break
        self.guards = guards
        return union(*values)

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(shapes.lift(self, value), Size):
                operations.take_question(self, value)
            truth = self.truth(value)
            return UNKNOWN if truth is None else constant(not truth)
        made = operations.negated(self, value, node)
        if made is not None:
            return made
        if self._may_change(value):
            return UNKNOWN
        found = literal_of(value)
        if isinstance(node.op, ast.USub) and found is not None and isinstance(found.value, (int, float)):
            return constant(-found.value)
        return tuple(
            self.copy_batch(atom) if isinstance(atom, Ref) and self.is_batch(atom)
            else UNKNOWN[0] if isinstance(atom, Literal) else atom
            for atom in value
        )  # fmt: skip

    def _operation(self, node: ast.BinOp) -> Value:
        operations.note_bits(self, node)
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        return self.operated(left, right, node.op, node) if self.is_alive() else UNKNOWN

    def operated(self, left: Value, right: Value, operator: ast.operator, node: ast.AST) -> Value:
        """Return the result of an operator."""
        made = operations.operated(self, left, right, operations.SIGNS[type(operator)], node)
        if made is not None:
            return made
        if self._may_change(left + right):
            return UNKNOWN
        objects = [found for atom in left + right if (found := self.object_at(atom)) is not None]
        for value in (left, right):
            if any(self.is_batch(atom) for atom in value):
                return self.copied(value)
        lists = [found for found in objects if isinstance(found, ListObject)]
        dicts = [found for found in objects if isinstance(found, DictObject)]
        if objects and len(lists) == len(objects):
            known = [found.items for found in lists if found.items is not None]
            is_sum = isinstance(operator, ast.Add) and len(left) == len(right) == 1 and len(known) == 2
            items = known[0] + known[1] if is_sum else None
            is_tuple = all(found.is_tuple for found in lists)
            return self.list_of(items, union(*(found.any_item for found in lists)), is_tuple=is_tuple)
        if len(dicts) == 2 == len(objects):
            one, other = dicts
            is_exact = one.is_exact and other.is_exact
            return self.dict_of({**one.items, **other.items}, is_exact=is_exact, rest=union(one.rest, other.rest))
        one_text, other_text = text_of(left), text_of(right)
        if isinstance(operator, ast.Add) and one_text is not None and other_text is not None:
            return constant(one_text + other_text)
        numeric = [all(map(is_numeric, value)) for value in (left, right)]
        makes_text = one_text or other_text or (isinstance(operator, ast.Mod) and not numeric[0])
        if objects or makes_text or not (all(numeric) or ARRAY in (left, right)):
            return UNKNOWN
        is_array = all(isinstance(atom, (Array, Literal)) for atom in left + right)
        return ARRAY if is_array else (Result("numpy.operator"),)

    def _may_change(self, operands: Value) -> bool:
        """Return whether an operand's class may define an operator, and let go of the operands if it may."""
        owners = [found.owner for atom in operands if isinstance(found := self.object_at(atom), InstanceObject)]
        may_change = any(
            name.startswith("__") and name not in ("__init__", "__call__")
            for owner in owners
            for base in lineage(owner)
            if isinstance(base, Class)
            for name in base.attributes
        )
        if may_change:
            self.escape(operands)
        return may_change

    def _compare(self, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        others = [self.evaluate(child) for child in node.comparators]
        if not self.is_alive() or len(others) != 1:
            return UNKNOWN
        right, operator = others[0], node.ops[0]
        sign = operations.SIGNS.get(type(operator))
        made = None if sign is None else operations.operated(self, left, right, sign, node)
        if made is not None:
            return made
        if not isinstance(operator, (ast.Is, ast.IsNot)) and self._may_change(left + right):
            return UNKNOWN
        if isinstance(operator, (ast.In, ast.NotIn)):
            found = self._contains(right, left)
            return UNKNOWN if found is None else constant(found == isinstance(operator, ast.In))
        one, other = literal_of(left), literal_of(right)
        is_same: bool | None = None
        if one is not None and other is not None:
            is_same = one == other if isinstance(operator, (ast.Is, ast.IsNot)) else one.value == other.value
            order = _ORDERS.get(type(operator))
            if order is not None and is_numeric(one) and is_numeric(other):
                return constant(order(one.value, other.value))
        elif self._is_member(left) and self._is_member(right):
            is_same = left == right
        elif right == NONE and not any(atom in UNKNOWN or isinstance(atom, (Literal, Result)) for atom in left):
            is_same = False if isinstance(operator, (ast.Is, ast.IsNot)) else None
        if is_same is None or not isinstance(operator, (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
            is_object = any(isinstance(self.object_at(atom), InstanceObject) for atom in left + right)
            return UNKNOWN if is_object or isinstance(operator, (ast.Is, ast.IsNot)) else (Result("numpy.operator"),)
        return constant(is_same == isinstance(operator, (ast.Eq, ast.Is)))

    @staticmethod
    def _is_member(value: Value) -> bool:
        """Return whether a value is one member of an enumeration."""
        return len(value) == 1 and isinstance(value[0], Member) and isinstance(value[0].receiver, Class)

    def _contains(self, container: Value, item: Value) -> bool | None:
        """Return whether a container has an item, as far as that is known."""
        key = literal_of(item)
        answer = self.asked(container, key.value if key is not None and isinstance(key.value, str) else None)
        if answer != UNKNOWN:
            return self.truth(answer)
        if key is None or len(container) != 1:
            return None
        match self.object_at(container[0]):
            case DictObject() as found:
                return False if found.is_exact and key.value not in found.items else None
            case ListObject(items) if items is not None and all(literal_of(one) for one in items):
                return any(one.value == key.value for item in items if (one := literal_of(item)) is not None)
            case _:
                return None

    # Calls

    def _call_expression(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super()
        function = self.evaluate(node.func)
        call = Call(node=node)
        if last_name(node.func) not in _USING:
            self.keeps(*node.args)
        for child in node.args:
            self._add_argument(call, child)
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if not self.is_alive():
                return UNKNOWN
            if keyword.arg is not None:
                call.named[keyword.arg] = value
            else:
                self._add_keywords(call, value)
        return self.call(function, call) if self.is_alive() else UNKNOWN

    def _add_argument(self, call: Call, child: ast.expr) -> None:
        value = self.evaluate(child.value if isinstance(child, ast.Starred) else child)
        if not self.is_alive():
            return
        if not isinstance(child, ast.Starred):
            if call.is_starred:  # Its position is not known.
                self.escape(value)
            else:
                call.args.append(value)
            return
        items, element = self.iterate(value, call.node)
        if items is not None and not call.is_starred:
            call.args += items
        else:
            call.is_starred = True
            self.escape(element)

    def _add_keywords(self, call: Call, value: Value) -> None:
        match self.object_at(value[0]) if len(value) == 1 else None:
            case DictObject() as found:
                self.escape(found.rest)
                more = () if found.is_exact else UNKNOWN
                call.named.update({str(name): union(one, more) for name, one in found.items.items()})
                call.has_more = call.has_more or not found.is_exact
            case BatchObject() as found:
                call.named.update({name: field.value for name, field in found.fields.items()})
                call.has_more = call.has_more or found.is_open
            case _:
                self.escape(value)
                call.has_more = True

    def _super(self) -> Value:
        for frame in reversed(self.frames):
            if frame.code is not None and frame.code.owner is not None:
                args = frame.code.node.args
                first = [*args.posonlyargs, *args.args][:1]
                receiver = self.lookup(first[0].arg) if first else UNKNOWN
                return (Super(frame.code.owner, receiver[0]),) if isinstance(receiver[0], (Ref, Class)) else UNKNOWN
        return UNKNOWN

    # Generators

    def _named(self, node: ast.NamedExpr) -> Value:
        self.keeps(node.value)
        value = self.evaluate(node.value)
        inner, self.frame.scope = self.frame.scope, self.frame.around or self.frame.scope
        self.assign(node.target, value)
        self.frame.scope = inner
        return value

    def _yield(self, node: ast.Yield) -> Value:
        value = self.evaluate(node.value) if node.value is not None else NONE
        if not self.is_alive():
            return UNKNOWN
        if not self.enter_body(value):
            code = self.frame.code
            if code is not None and code.returns is not None and node.value is not None:
                self.need_yielded(code.returns, value, node.value)
            self.frame.yields.append(value)
            for atom in value:
                batch = self.batch_at(atom)
                if batch is not None and isinstance(atom, Ref):
                    self.frame.yielded.append((atom, dict(batch.fields)))
        return UNKNOWN

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        self.frame.yields.append(self.iterate(self.evaluate(node.value), node)[1])
        return UNKNOWN

    # What is in statements

    def enter_body(self, value: Value) -> bool:
        """Run the body of the ``with`` whose context yields, and return whether there is one."""
        raise NotImplementedError


def _constant(node: ast.Constant) -> Value:
    if node.value is None or isinstance(node.value, (str, int, float)):
        return constant(node.value)
    return (shapes.ELLIPSIS,) if node.value is ... else ARRAY
