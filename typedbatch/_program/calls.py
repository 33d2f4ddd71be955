"""Calls: of functions of the program, with what they are given, and of everything else by its row in a table."""

from __future__ import annotations

import ast
from typing import Final

from typedbatch._program import array_members, batch_arrays, operations, shapes
from typedbatch._program.arrays.declared import array_of, refined
from typedbatch._program.arrays.tables import CHANGES_MODULES, KEEPS_LAYER
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Layer, Record
from typedbatch._program.buffers import call_buffer_member
from typedbatch._program.classes import (
    PLAIN_BASES,
    attribute_of,
    base_names,
    declared_fields,
    is_module,
    is_protocol,
    kinds_of,
    lineage,
)
from typedbatch._program.containers import call_dict_member, call_list_member, call_text_member
from typedbatch._program.frames import Call, Frame
from typedbatch._program.heap import (
    BatchObject,
    BufferObject,
    Changes,
    DictObject,
    Field,
    InstanceObject,
    ListObject,
    ScopeObject,
)  # fmt: skip
from typedbatch._program.library import call_class_member, call_function, call_member, make
from typedbatch._program.machine import FindingKey
from typedbatch._program.outside import KEEPS_NOTHING, call_external
from typedbatch._program.relevance import Relevance
from typedbatch._program.report import Finding
from typedbatch._program.signatures import Signatures, is_positive
from typedbatch._program.source import Program
from typedbatch._program.swapped import check_arguments, returned_by
from typedbatch._program.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    Array,
    Atom,
    Class,
    Code,
    Context,
    Decorated,
    External,
    Factory,
    Function,
    Literal,
    Made,
    Member,
    Method,
    Partial,
    Ref,
    Result,
    Shaped,
    Value,
    constant,
    text_of,
    union,
)  # fmt: skip
from typedbatch._program.vocabulary import last_name

_DEEPEST: Final = 14
"""Most calls within each other that are followed."""
_DEEPEST_LATER: Final = 4
"""The same when half of a share of steps is used up."""
_MOST_OF_ONE: Final = 2
"""Most calls of one function that the run is in at a time."""
_MOST_CALLED: Final = 6
"""Functions of one value that are called; others of more are unknown."""
_MOST_ITERATED: Final = 8
_PER_CALL: Final = 3
_OFTEN: Final = 20
"""Most calls that are followed of a function that has to do with no batch."""
_EXITS: Final = frozenset({
    "_exit", "abort", "assert_never", "error", "exit", "fail", "quit", "skip", "xfail",
})  # fmt: skip
"""Names of functions that end the program, or the test."""


class Calls(Signatures):
    """A run that calls."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.relevance = Relevance(program)
        self._calls: dict[Code, int] = {}
        """Numbers of calls of functions that have to do with no batch."""

    def call(self, function: Value, call: Call) -> Value:
        """Call each function that a value may be."""
        if len(function) == 1:
            return self._call(function[0], call)
        if all(isinstance(atom, Member) for atom in function):
            receivers = tuple(atom.receiver for atom in function if isinstance(atom, Member))
            if all(map(self.is_batch, receivers)) and self.is_one(receivers):
                return union(*(self._call(atom, call) for atom in function))
        elif len(function) > _MOST_CALLED:
            self.escape(function[_MOST_CALLED:])
            function = (*function[:_MOST_CALLED], *UNKNOWN)
        found: list[Value] = []
        joined: Changes | None = None
        known, alternatives = self.findings, list[dict[FindingKey, Finding]]()
        self.choices += 1
        for atom in function:
            mark, self.findings = self.heap.begin(), dict(known)
            found.append(self._call(atom, call))
            joined = self.heap.join(joined, self.heap.end(mark))
            if atom not in UNKNOWN:
                alternatives.append(self.findings)
        self.choices -= 1
        self.findings = known
        if all(len(one) > len(known) for one in alternatives):  # Whichever it is, something in it is wrong.
            for one in alternatives:
                known.update({key: finding for key, finding in one.items() if key not in known})
        self.heap.apply(joined)
        return union(*found)

    def _call(self, function: Atom, call: Call) -> Value:
        if not self.is_alive():
            return UNKNOWN
        if isinstance(call.node, ast.Call) and last_name(call.node.func) in _EXITS:
            self.may_raise()
        if isinstance(call.node, ast.Call) and last_name(call.node.func) in CHANGES_MODULES:
            self.are_layers_changed = True
        match function:
            case Function() | Method(Function()):
                return self.activate(function, call)
            case Class():
                return self._construct(function, call)
            case Partial(inner, args, named):
                more = Call(
                    [*args, *call.args], {**dict(named), **call.named}, call.node, call.has_more, call.is_starred
                )
                return self.call(inner, more)
            case Member(receiver, name):
                return self._call_member(receiver, name, call)
            case External(name):
                if call.is_starred and name != "asyncio.gather":
                    self.escape_all(call)
                    return UNKNOWN
                if name.partition(".")[0] == "typedbatch":
                    return call_function(self, name, call)
                return call_external(self, name, call)
            case Ref():
                return self._call_object(function, call)
            case Decorated(inner):
                self.escape((inner,))
                self.escape_all(call)
                return UNKNOWN
            case Made(_, Layer() as layer):
                return operations.call_layer(self, layer, call)
            case Result(name) if name.partition(".")[0] in KEEPS_NOTHING:
                self.escape_functions(call)
                return (Result(name),) if name.startswith(("numpy", "torch")) else UNKNOWN
            case _:
                if isinstance(call.node, ast.Call) and last_name(call.node.func) in ("setattr", "setitem"):
                    self._patch(call)
                self.escape_all(call)
                return UNKNOWN

    def _patch(self, call: Call) -> None:
        """Do what ``monkeypatch.setattr(module, "NAME", value)`` and ``setitem`` of a dict do."""
        name = text_of(call.get(1, "name"))
        for atom in call.first or ():
            if isinstance(self.object_at(atom), DictObject):
                self.set_item((atom,), call.get(1, "name") or UNKNOWN, UNKNOWN, ast.Constant(name), ast.Constant(name))
        self.open_variable(name or "")

    def _call_object(self, ref: Ref, call: Call) -> Value:
        found = self.heap.read(ref)
        if isinstance(found, InstanceObject):
            own = found.attributes.get("forward", ()) if is_module(found.owner) else ()
            method = attribute_of(found.owner, "__call__") or attribute_of(found.owner, "forward")
            if method is not None:
                is_changed = self.are_layers_changed and is_module(found.owner)
                self.choices += is_changed
                value = self.call(union(self.bound(method, ref, call.node), own), call)
                self.choices -= is_changed
                return shapes.unranked(self, value) if is_changed else value
        self.escape_all(call)
        return UNKNOWN

    def _call_member(self, receiver: Atom, name: str, call: Call) -> Value:
        if isinstance(receiver, Class) and name == "__new__" and declared_fields(receiver) is None:
            return (self.heap.add(InstanceObject(receiver)),)
        if isinstance(receiver, Literal):
            return call_text_member(receiver, name, call)
        if isinstance(receiver, (Shaped, Made)):
            return operations.call_member(self, receiver, name, call) or (Result("numpy.member"),)
        if not isinstance(receiver, Ref):
            return call_class_member(self, name, call)
        match self.heap.read(receiver):
            case BatchObject():
                return call_member(self, receiver, name, call)
            case ListObject():
                return call_list_member(self, receiver, name, call)
            case DictObject():
                return call_dict_member(self, receiver, name, call)
            case BufferObject():
                return call_buffer_member(self, receiver, name, call)
            case InstanceObject():
                return self._call_module_member(receiver, name, call)
            case _:
                return UNKNOWN

    def _call_module_member(self, module: Ref, name: str, call: Call) -> Value:
        """Call a method that torch's modules have."""
        if name in KEEPS_LAYER:
            if name == "apply":
                self.escape((module,))
                self.forget_attributes(module)
            self.escape_all(call)
            return (module,)
        key = text_of(call.get(0, "name"))
        if key is None:
            self.forget_attributes(module)
        else:
            self.set_attribute((module,), key, call.get(1, "tensor") or UNKNOWN, call.node)
        return NONE

    # Functions of the program

    def run_unknown(self, function: Function | Method) -> None:
        """Run a function with arguments of which nothing is known but their annotations."""
        self.activate(function, None)

    def activate(self, function: Function | Method, call: Call | None, *, enters: bool = False) -> Value:
        """Run a function of the program.

        Args:
            function: The function.
            call: Its arguments; None if nothing is known of them.
            enters: Whether ``with`` enters the context that a function with ``@contextmanager`` makes.
        """
        plain = function if isinstance(function, Function) else function.function
        code, given = plain.code, call or Call(is_starred=True, has_more=True)
        if code.kind == "context" and call is not None and not enters:
            return (Context(function, tuple(call.args), tuple(call.named.items())),)
        self.step(_PER_CALL)
        is_lazy = code.is_generator or isinstance(code.node, ast.AsyncFunctionDef)
        if is_lazy and call is not None and call.node in self.later and not enters:
            return self.start((function,), Call([*call.args], call.named, None, call.has_more, call.is_starred))
        receiver = (function.receiver,) if isinstance(function, Method) else None
        if self._is_of_no_use(code, given, receiver):
            self.escape_scopes(plain.scope, code.module)
            return self._annotated_result(code, Frame(None, code.module, plain.scope, self.next_frame()))
        is_deep = len(self.frames) > self._deepest()
        if is_deep or sum(frame.code is code for frame in self.frames) >= _MOST_OF_ONE:
            self.escape_all(given)
            self.escape(receiver or ())
            self.escape_scopes(plain.scope, code.module)
            return self._annotated_result(code, Frame(None, code.module, plain.scope, self.next_frame()))
        code.has_run = True
        exits, raises, quiet = self.exits, self.raises, self.quiet
        guards, trial = self.guards, self.trial
        frame = Frame(code, code.module, self.scope(plain.scope), self.next_frame(), call=given.node)
        frame.guarded, frame.exits = len(self.guards), self.exits
        caller = self.frames[-1] if self.frames else None
        frame.mark = self.heap.begin()
        self.enter(frame)
        try:
            self._bind(frame, plain.scope, receiver, call, caller)
            value = self._anything(code) if code.is_stub else self._run_body(code)
        finally:
            self.exit()
            self.exits, self.quiet, self.guards, self.trial = exits + self.raises - raises, quiet, guards, trial
        ended = self.heap.end(frame.mark)
        return self._returned(frame, code, value, ended)

    def _deepest(self) -> int:
        """Return the most calls within each other that are followed, which is less once a share of steps is used up."""
        over = self.steps - self.share_end
        return _DEEPEST if over < 0 else _DEEPEST_LATER if over < self.share else 1

    def _is_of_no_use(self, code: Code, call: Call, receiver: Value | None) -> bool:
        """Return whether a function that has to do with no batch, and is given none, has been run often; let it go."""
        if self.relevance.covers(code.module, code.node.lineno):
            return False
        self._calls[code] = self._calls.get(code, 0) + 1
        values = [receiver or (), *call.values()]
        if self._calls[code] <= _OFTEN or any(self._holds_batches(value) for value in values):
            return False
        self.escape_all(call)
        self.escape(receiver or ())
        return True

    def _holds_batches(self, value: Value, depth: int = 3) -> bool:
        for atom in value:
            found = self.object_at(atom)
            inner: list[Value] = []
            match found:
                case BatchObject() | BufferObject():
                    return True
                case ListObject():
                    inner = [found.any_item]
                case DictObject():
                    inner = [found.any_value]
                case InstanceObject():
                    inner = [*found.attributes.values()]
                case _:
                    pass
            if inner and (not depth or any(self._holds_batches(one, depth - 1) for one in inner)):
                return True
        return False

    def _anything(self, code: Code) -> Value:
        """Take it that a function without a body does anything to what its parameters do not protect."""
        for parameter in [*code.node.args.posonlyargs, *code.node.args.args, *code.node.args.kwonlyargs]:
            classes = self.classes_in(parameter.annotation) if parameter.annotation is not None else None
            if not classes or not all(map(is_protocol, classes)):
                self.escape(self.lookup(parameter.arg))
        return self.annotated(code.returns)

    def _run_body(self, code: Code) -> Value:
        if isinstance(code.node, ast.Lambda):
            return self.evaluate(code.node.body)
        self.run_block(code.node.body)
        return NONE

    def run_block(self, body: list[ast.stmt]) -> None:
        """Run statements."""
        raise NotImplementedError

    def _returned(self, frame: Frame, code: Code, last: Value, ended: Changes | None) -> Value:
        """Join what holds at each return, and return what the call may return."""
        values = [value for value, _ in frame.returns]
        joined: Changes | None = None
        for _, changes in frame.returns:
            joined = self.heap.join(joined, changes)
        if ended is not None:
            joined = self.heap.join(joined, ended)
            values.append(last)
        self.heap.apply(joined)
        if not self.is_alive():
            return UNKNOWN
        if code.is_generator:
            self._forget_after_yield(frame)
            return self.list_of(None, union(*frame.yields) or UNKNOWN, generator=frame.number)
        if code.is_abstract:
            return self._annotated_result(code, frame)
        value = union(*values)
        if frame.guessed:
            value = shapes.unranked(self, value)
            frame.sizes = {key: size for key, size in frame.sizes.items() if key not in frame.guessed}
        if code.returns is None:
            return value
        if value == UNKNOWN:
            return self._annotated_result(code, frame)
        held = shapes.lift(self, value)
        declared = self.declared_result(code, frame) if isinstance(held, Known) else None
        if declared is None or not isinstance(held, Known):
            return value
        owner = Record(frame.number, frame.sizes, called=True)
        return shapes.lower(refined(array_of(declared, owner, self.ranks), held))

    def _annotated_result(self, code: Code, frame: Frame) -> Value:
        """Return a value of the annotation of the result, which is read in the module of the function."""
        scope = self.scope_of_module(code.module)
        inner = Frame(None, code.module, scope or frame.scope, frame.number, sizes=frame.sizes, is_result=True)
        self.enter(inner)
        try:
            return self.annotated(code.returns)
        finally:
            self.exit()

    def _forget_after_yield(self, frame: Frame) -> None:
        """Take it that fields which a batch had when it was yielded, and lost afterwards, may be there."""
        for ref, fields in frame.yielded:
            batch = self.batch_at(ref)
            for name in fields.keys() - (batch.fields.keys() if batch is not None else fields.keys()):
                self.write_batch(ref).fields[name] = Field(fields[name].value, is_sure=False)

    def _bind(self, frame: Frame, scope: Ref, receiver: Value | None, call: Call | None, caller: Frame | None) -> None:
        """Set the parameters of a function."""
        assert frame.code is not None
        syntax, given = frame.code.node.args, call or Call(is_starred=True, has_more=True)
        positional = [*syntax.posonlyargs, *syntax.args]
        args = [*([] if receiver is None else [receiver]), *given.args]
        names = {parameter.arg: value for parameter, value in zip(positional, args, strict=False)}
        args_at = {one.arg: at for at, one in enumerate(positional, -1 if receiver is not None else 0)}
        for parameter in [*positional[len(args) :], *syntax.kwonlyargs]:
            if parameter.arg in given.named:
                names[parameter.arg] = given.named[parameter.arg]
        every = [*positional, *syntax.kwonlyargs]
        if given.is_starred or given.has_more:
            for parameter in every:
                if parameter.arg not in names:
                    is_width = frame.code.name == "__init__" and is_positive(syntax, parameter)
                    names[parameter.arg] = self.annotated(parameter.annotation, parameter.arg, is_width=is_width)
        found = self.heap.read(scope)
        for parameter in every:
            if parameter.arg not in names and isinstance(found, ScopeObject) and f".{parameter.arg}" in found.names:
                names[parameter.arg] = found.names[f".{parameter.arg}"]
        if syntax.vararg is not None:
            rest = args[len(positional) :]
            more = UNKNOWN if given.is_starred else ()
            names[syntax.vararg.arg] = self.list_of(None if given.is_starred else rest, union(*rest, more))
        if syntax.kwarg is not None:
            known = {one.arg for one in every}
            rest_named = {name: value for name, value in given.named.items() if name not in known}
            names[syntax.kwarg.arg] = self.dict_of(
                {**rest_named}, is_exact=not given.has_more, rest=UNKNOWN if given.has_more else ()
            )
        for parameter in every:
            value = names.setdefault(parameter.arg, UNKNOWN)
            if parameter.annotation is None:
                continue
            declared = self.declared_array(parameter.annotation)
            if declared is not None:
                frame.declared[parameter.arg] = declared
                node = given.argument(args_at.get(parameter.arg), parameter.arg)
                self.fit(frame.code, parameter.arg, declared, value, node)
            elif value == UNKNOWN:
                names[parameter.arg] = self.annotated(parameter.annotation, parameter.arg)
            elif call is not None and call.node is not None and caller is not None:
                at = args_at.get(parameter.arg)
                self.need_annotated(parameter.annotation, value, call.argument(at, parameter.arg), is_given=True)
        if call is not None and call.node is not None and caller is not None and call.node not in self.called:
            self.called[call.node] = returned_by(frame.code)
            callee = self.exit()
            check_arguments(self, call.node, [(name, call.argument(at, name)) for name, at in args_at.items()])
            self.enter(callee)
        for name, one in self.filled(frame).items():
            names[name] = shapes.filled(self, names[name], one)
        self.write_scope(frame.scope).names.update(names)

    # Classes of the program

    def _construct(self, cls: Class, call: Call) -> Value:
        if declared_fields(cls) is not None:
            if attribute_of(cls, "__init__") is None:
                return make(self, call, cls)
            self.escape_all(call)
            return self.fresh(cls)
        bases = base_names(cls)
        has_metaclass = any(isinstance(base, Class) and base.has_metaclass for base in lineage(cls))
        if (
            has_metaclass
            or attribute_of(cls, "__new__") is not None
            or bases & {"Enum", "IntEnum", "StrEnum", "Protocol"}
        ):
            self.escape_all(call)
            return UNKNOWN
        if "TypedDict" in bases:
            is_exact = not call.args and not call.has_more
            return self.dict_of({**call.named}, is_exact=is_exact, rest=() if is_exact else UNKNOWN)
        ref = self.heap.add(InstanceObject(cls))
        init = attribute_of(cls, "__init__")
        if init is not None:
            self.call(self.bound(init, ref, call.node), call)
            return (ref,)
        fields = self._set_declared(ref, cls, call)
        if not self.is_alive():
            return UNKNOWN
        post = attribute_of(cls, "__post_init__")
        if post is not None:
            self.call(self.bound(post, ref, call.node), Call(node=call.node))
        elif not fields and bases - PLAIN_BASES:
            self.escape_all(call)
        return (ref,)

    def _set_declared(self, ref: Ref, cls: Class, call: Call) -> list[str]:
        """Set the fields of a dataclass or named tuple, and return their names."""
        names = [
            *dict.fromkeys(name for base in reversed(lineage(cls)) if isinstance(base, Class) for name in base.fields)
        ]
        given = dict(zip(names, call.args, strict=False))
        given.update({name: value for name, value in call.named.items() if name in names})
        for at, name in enumerate(names):
            if name in given:
                self.need_kinds(kinds_of(cls, name), given[name], call.argument(at, name))
            else:
                given[name] = UNKNOWN if call.has_more or call.is_starred else self._default(cls, name, call)
        if self.is_alive():
            written = self.heap.write(ref)
            assert isinstance(written, InstanceObject)
            written.attributes.update(given)
        return names

    def _default(self, cls: Class, name: str, call: Call) -> Value:
        attribute = attribute_of(cls, name)
        if attribute is None:
            return UNKNOWN
        made = [
            self.call(atom.function, Call(node=call.node)) if isinstance(atom, Factory) else (atom,)
            for atom in attribute
        ]
        return union(*made)

    # Iteration

    def iterate(self, value: Value, node: ast.AST | None = None) -> tuple[tuple[Value, ...] | None, Value]:
        """Return the items that iteration gives, or None if they are not known one by one, and what an item may be."""
        if len(value) > 1:
            if len(value) >= _MOST_ITERATED:
                self.escape(value)
                return None, UNKNOWN
            return None, union(*(self.iterate((atom,), node)[1] for atom in value))
        atom = value[0] if value else UNKNOWN[0]
        match self.object_at(atom):
            case ListObject(element=element, generator=generator) if generator:
                self.step()
                copies = (self._element_of(one, generator) for one in element)
                return None, tuple(copies) or UNKNOWN
            case ListObject(items=None, element=element) if text_of(element) is not None:
                return None, UNKNOWN  # The one text that is known may be gone.
            case ListObject() as found:
                return found.items, found.element or UNKNOWN
            case DictObject() as found:
                return (tuple(constant(key) for key in found.items), UNKNOWN) if found.is_exact else (None, UNKNOWN)
            case BatchObject() as found if found.may_be_empty:
                return None if found.fields else (), UNKNOWN
            case BatchObject() if isinstance(atom, Ref):
                one = self.copy_batch(atom)
                batch_arrays.changed(self, one, batch_arrays.row)
                return None, (one,)
            case InstanceObject() if isinstance(atom, Ref):
                return None, self._iterate_instance(atom, node)
            case _ if isinstance(atom, Shaped):
                return array_members.items_of(self, atom)
            case _:
                return None, ARRAY if isinstance(atom, Array) else UNKNOWN

    def _element_of(self, atom: Atom, generator: int) -> Atom:
        """Return an element that a generator yields; batches that it made are other ones each time."""
        batch = self.batch_at(atom)
        if batch is None or batch.activation != generator or not isinstance(atom, Ref):
            return atom
        return self.copy_batch(atom, group=self.steps)

    def _iterate_instance(self, ref: Ref, node: ast.AST | None) -> Value:
        made = self.call_special(ref, "__iter__", [], node)
        if made is None or not self.is_alive():
            return UNKNOWN
        if made != (ref,):
            return self.iterate(made, node)[1]
        return self.call_special(ref, "__next__", [], node) or UNKNOWN
