"""Random packages of three modules, in the manner of research code.

``base`` has constants and a class that holds batches, ``helpers`` has functions that take batches, and ``main`` uses
both. Each line ends in a comment with the kind of its statement. Flags are read from a list that mypy cannot see
through, so that one package can be run under every combination of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from random import Random
from string import Formatter
from typing import TypeAlias

from tests.program import forms
from tests.program.forms import Forms

Body: TypeAlias = Callable[[], Iterator[str]]
"""What writes the statements below a head."""

FLAGS = 4
MODULES = ("base", "helpers", "main")
FLAGS_MODULE = "import sys\n\nFLAGS = [letter == '1' for letter in (*sys.argv[1:], '')[0].ljust(4, '0')]\n"
"""``flags.py``, beside the packages: ``python -m p0000.main 0110`` runs one under a combination of flags."""

_IMPORTS = (
    "import contextlib", "import copy", "import functools", "import numpy as np",
    "from collections.abc import Callable", "from typing import TypeVar", "from flags import FLAGS",
    "from typedbatch import Batch, cat, stack",
)  # fmt: skip
_FLAGS = tuple(f"F{number}" for number in range(FLAGS))
_CONSTANTS = (*_FLAGS, "A", "B", "KEPT", "MORE", "NAME", "SEEN", "TABLE", "TEMPLATE", "Holder")
_START = """
if __name__ == "__main__":
    for scenario in SCENARIOS:
        with contextlib.suppress(KeyError, AttributeError):
            scenario()
"""


@dataclass(frozen=True)
class Package:
    """A package: the text of each module, by the module's name."""

    name: str
    modules: dict[str, str]

    def without(self, module: str, line: int) -> Package:
        """Return the package without the innermost statement at a line of a module."""
        text = self.modules[module]
        statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
        within = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
        found = min(within, key=lambda node: (node.end_lineno or 0) - node.lineno)
        lines = text.splitlines()
        lines[found.lineno - 1 : found.end_lineno] = [" " * found.col_offset + "pass"]
        return replace(self, modules={**self.modules, module: "\n".join(lines) + "\n"})


@dataclass(frozen=True)
class Scope:
    """What statements of a function can use.

    Attributes:
        batches: expressions that give batches.
        names: those of them that are local names, which can be bound again.
        lists: expressions that give lists of batches; likewise ``tables`` of dicts and ``holders`` of objects.
        local_lists: those of them that are local names; likewise ``local_tables``.
        returned: what a ``return`` of the function returns, after a space; None outside of functions.
        methods: whether methods of holders may be called; not in these methods, which would call themselves.
    """

    batches: tuple[str, ...]
    names: tuple[str, ...] = ()
    lists: tuple[str, ...] = ("SEEN",)
    tables: tuple[str, ...] = ("TABLE",)
    holders: tuple[str, ...] = ("KEPT",)
    local_lists: tuple[str, ...] = ()
    local_tables: tuple[str, ...] = ()
    returned: str | None = None
    methods: bool = True
    looped: bool = False

    def with_batches(self, *names: str) -> Scope:
        """Return the scope with more local names of batches, which statements prefer."""
        return replace(self, batches=(*names * 2, *self.batches), names=(*self.names, *names))


SHARED = Scope(("TEMPLATE", "KEPT.data"))
"""What every function of ``helpers`` and ``main`` can use."""


@dataclass
class Writer:
    """Writes packages by chance.

    Attributes:
        without: kinds of statements that are left out; ``slip`` is for fields that are slips of one another.
        fields: fields that may occur; ``inner`` those of nested batches.
        owners: the module of each function.
        module: the one that is being written.
        favorites: fields that this package uses more than others, so that what one function writes another one reads.
    """

    random: Random
    without: Set[str] = frozenset()
    numbers: int = 0
    fields: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    favorites: list[str] = field(default_factory=list)
    roles: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    module: str = "base"

    def package(self, name: str) -> Package:
        """Return a new package."""
        self.numbers, self.roles, self.owners = 0, {}, {}
        self.fields = [name for name in forms.FIELDS if name not in forms.SLIPS or "slip" not in self.without]
        self.inner = [name for name in forms.INNER if name not in forms.SLIPS or "slip" not in self.without]
        self.favorites = self.random.sample(self.fields, 2)
        base, helpers, main = self._base(name), self._helpers(name), self._main(name)
        return Package(name, dict(zip(MODULES, (base, helpers, main), strict=True)))

    # ---- modules ------------------------------------------------------------------------------------------------

    def _base(self, name: str) -> str:
        self.module = "base"
        own = Scope(("TEMPLATE",), holders=())
        held = Scope(("self.data", "self.data", "self.info"), holders=("self",), methods=False)
        lines = [
            *_IMPORTS,
            "A = np.zeros((4, 2))",
            *(f"{flag} = FLAGS[{number}]" for number, flag in enumerate(_FLAGS)),
            'B = TypeVar("B", bound=Batch)',
            f"TEMPLATE = {self._batch()}  # constant",
            f"CURRENT = {self._batch()}  # constant",
            "SEEN: list[Batch] = []",
            "TABLE: dict[str, Batch] = {}",
            f'MORE = {{"{self.random.choice(self.fields)}": A}}',
            f'NAME = "".join(["{self.random.choice(self.fields)}"])',
            *self._functions(2, own, roles=("read", "write", "maybe", "new")),
            "class Holder:",
            f"    part = {self._batch()}  # class-attribute",
            *["    data: Batch"] * self._chance(0.3),
            "    def __init__(self) -> None:",
            f"        self.data = {self._batch()}  # attribute",
            f"        self.info: Batch = {self._batch()}  # attribute",
            f"        self.seen = {self.random.choice(['[self.data]', '[self.data, self.info]'])}  # list",
            "    def make(self) -> Batch:",
            f"        return {self._batch()}  # return",
            *self._indented(self._method("one", "self, b: Batch", replace(held.with_batches("b")))),
            *self._indented(self._method("two", "self", held)),
            "    @property",
            "    def current(self) -> Batch:",
            f"        return self.{self.random.choice(['data', 'data', 'info'])}  # property",
            "KEPT = Holder()",
        ]
        if "call-late" not in self.without:
            lines += ["def late(b: Batch) -> None:", f"    from {name} import helpers", "    helpers.write_late(b)"]
        self.module = "helpers"
        return "\n".join([*lines, ""])

    def _helpers(self, name: str) -> str:
        lines = [*_IMPORTS[:4], _IMPORTS[-1], *_imported(name, "base", *_CONSTANTS, *self.owners)]
        lines += self._functions(self.random.randint(5, 8), SHARED)
        lines += [*self._helper("write", "write_late", SHARED), *self._derived("Actor")]
        return "\n".join([*lines, ""])

    def _main(self, name: str) -> str:
        lines = [
            *_IMPORTS[:5], _IMPORTS[-1], *_imported(name, "base", *_CONSTANTS), *_imported(name, "helpers", "Actor"),
        ]  # fmt: skip
        lines += [f"from {name}.{self.owners[made]} import {made}" for made in self.owners]
        if "call-late" not in self.without:
            lines += [f"from {name}.base import late"]
            self.roles["late"] = ["late"]
        lines += ["SCENARIOS: list[Callable[[], None]] = []", *self._derived("Learner")]
        lines += self._functions(self.random.randint(1, 3), SHARED)
        lines += self._statements(SHARED, self.random.randint(0, 2), forms.WRITES)
        for number in range(self.random.randint(2, 4)):
            lines += [*self._scenario(f"scenario_{number}"), f"SCENARIOS.append(scenario_{number})"]
        lines += [*self._calls("scenario_last"), "SCENARIOS.append(scenario_last)"]
        return "\n".join([*lines, _START])

    def _derived(self, name: str) -> Iterator[str]:
        held = replace(SHARED, batches=("self.data", "self.data", "self.info"), holders=("self",), methods=False)
        yield f"class {name}(Holder):"
        yield "    def __init__(self) -> None:"
        yield "        super().__init__()"
        yield from self._indented(self._indented(self._statements(held, self.random.randint(0, 2), forms.WRITES)))
        if self._chance(0.5):
            yield "    def make(self) -> Batch:"
            yield f"        return {self._batch()}  # return"
        yield from self._indented(self._method("two", "self", held))
        yield from self._indented(self._method("three", "self, b: Batch", held.with_batches("b")))

    def _calls(self, name: str) -> Iterator[str]:
        """Yield a scenario that calls functions with new batches, as most would not be called otherwise."""
        yield f"def {name}() -> None:"
        yield "    pass"
        for role in ("read", "write", "maybe", "remove", "new", "back", "same", "loose", "keep"):
            for function in self.roles.get(role, []):
                if self._chance(0.5):
                    yield f"    {function}({self._batch()})  # call-{role}"

    def _scenario(self, name: str) -> Iterator[str]:
        scope = replace(SHARED, returned="").with_batches("b", "c")
        yield f"def {name}() -> None:"
        yield f"    b = {self._batch()}  # new"
        yield f"    c = {self._batch()}  # new"
        if self._chance(0.5):
            scope = replace(scope, lists=("many", *scope.lists), local_lists=("many",))
            yield f"    many = {self.random.choice(['[b, c]', '[b]', '[b.copy()]'])}  # list"
        if self._chance(0.3):
            scope = replace(scope, tables=("table", *scope.tables), local_tables=("table",))
            yield '    table = {"k": b, "j": c}  # table'
        if self._chance(0.6):
            scope = replace(scope, holders=("holder", "holder", *scope.holders))
            yield f"    holder = {self.random.choice(['Holder', 'Actor', 'Learner'])}()  # holder"
        yield from self._indented(self._body(scope, self.random.randint(4, 10), 0))

    # ---- functions ----------------------------------------------------------------------------------------------

    def _functions(self, count: int, scope: Scope, roles: tuple[str, ...] = ()) -> Iterator[str]:
        for _ in range(count):
            role = self.random.choice(roles or tuple(role for role, _ in forms.ROLES))
            name = f"{role}_{self._number()}"
            lines = list(self._helper(role, name, scope))
            self.roles.setdefault(role, []).append(name)
            self.owners[name] = self.module
            yield from lines

    def _helper(self, role: str, name: str, scope: Scope) -> Iterator[str]:
        ignore = "  # type: ignore[no-untyped-def]" if role == "loose" else ":"
        head = f"def {name}({dict(forms.ROLES)[role]}"
        yield f"{head}:{ignore}" if role == "loose" else f"{head}:"
        returned = " b" if role in ("back", "same") else " Batch()" if role == "new" else ""
        inner = replace(scope.with_batches(*() if role in ("all", "each", "kept") else ("b",)), returned=returned)
        body = self._with_globals(list(self._helper_body(role, inner)))
        yield from self._indented(body)

    def _helper_body(self, role: str, scope: Scope) -> Iterator[str]:
        size = self.random.randint(1, 3)
        if role in ("all", "each"):
            yield "for t in batches:  # loop"
            inner = replace(scope, batches=("t",), names=("t",))
            yield from self._indented(self._statements(inner, size, forms.READS + forms.WRITES))
        elif role == "kept":
            yield "for t in list(SEEN):  # loop"
            yield from self._indented(self._statements(replace(scope, batches=("t",)), 1, forms.WRITES))
            yield from self._statements(SHARED, 1, forms.WRITES)
        elif role == "keep":
            yield from self._statements(scope, 1, forms.KEEPING)
        elif role == "maybe":
            yield from self._branch(scope, forms.BRANCHES[:5], lambda: self._statements(scope, size, forms.WRITES))
        elif role == "new":
            yield from self._made(scope)
        else:
            allowed = {"read": forms.READS, "remove": forms.REMOVALS, "loose": forms.READS + forms.WRITES}
            yield from self._statements(scope, size, allowed.get(role, forms.WRITES))
            if self._chance(0.2):
                yield from self._statements(scope, 1, forms.CALLS)
            if role in ("back", "same"):
                yield "return b"

    def _made(self, scope: Scope) -> Iterator[str]:
        if self._chance(0.5):
            yield (
                self.random.choice(["return Batch(b, {f}=A)", "return Batch({f}=A)", "return b.copy()"]).format(
                    f=self.random.choice(self.fields)
                )
                + "  # return"
            )
            return
        yield f"out = {self.random.choice([self._batch(), 'Batch(b)', 'b.copy()', 'b[:2]'])}  # new"
        scope = replace(scope, batches=("out", "out", "b"), names=("out",), returned=" out")
        yield from self._body(scope, self.random.randint(1, 2), 1)
        yield "return out"

    def _method(self, name: str, parameters: str, scope: Scope) -> Iterator[str]:
        yield f"def {name}({parameters}) -> None:"
        body = list(self._body(replace(scope, returned=""), self.random.randint(1, 3), 1))
        yield from self._indented(self._with_globals(body))

    def _with_globals(self, body: list[str]) -> list[str]:
        bound = any(line.lstrip().startswith("CURRENT = ") for line in body)
        return ["global CURRENT", *body] if bound else body or ["pass"]

    # ---- statements ---------------------------------------------------------------------------------------------

    def _body(self, scope: Scope, size: int, depth: int) -> Iterator[str]:
        for _ in range(size):
            if depth < 3 and self._chance(0.25):
                yield from self._block(scope, depth + 1)
            elif depth and self._chance(0.04) and scope.returned is not None and "early" not in self.without:
                yield f"if {self._flag()}:  # early"
                yield f"    return{scope.returned}" if not scope.looped else "    break"
            else:
                yield from self._statements(scope, 1, self._some_forms())

    def _some_forms(self) -> Forms:
        tables = (forms.READS, forms.WRITES, forms.REMOVALS, forms.BINDINGS, forms.STORES, forms.CALLS)
        return self.random.choices(tables, (38, 18, 5, 14, 8, 17))[0]

    def _statements(self, scope: Scope, count: int, table: Forms) -> Iterator[str]:
        for _ in range(count):
            yield self._one_of(scope, table)[1]

    def _block(self, scope: Scope, depth: int) -> Iterator[str]:
        kinds = {"while": self._while, "closure": self._closure, "try": self._try, "match": self._match}
        usable = [write for kind, write in kinds.items() if kind not in self.without]
        yield from self.random.choice([*[self._if] * 3, *[self._loop] * 2, self._with, *usable])(scope, depth)

    def _inner(self, scope: Scope, depth: int) -> Iterator[str]:
        yield from self._indented(self._body(scope, self.random.randint(1, 2), depth))

    def _if(self, scope: Scope, depth: int) -> Iterator[str]:
        size = self.random.randint(1, 2)
        yield from self._branch(scope, forms.BRANCHES, lambda: self._body(scope, size, depth))

    def _branch(self, scope: Scope, heads: Forms, body: Body) -> Iterator[str]:
        asked, head = self._one_of(scope, heads)
        yield head
        yield from self._indented(body())
        if asked == "asked" and self._chance(0.5):
            yield from self._indented(self._read_of(head))
        if self._chance(0.4):
            yield "else:"
            yield from self._indented(body())

    def _read_of(self, head: str) -> Iterator[str]:
        """Yield a read of the very field that a condition asks for."""
        test = next(node for node in ast.walk(ast.parse(head + "\n    pass")) if isinstance(node, ast.If)).test
        names = [node.value for node in ast.walk(test) if isinstance(node, ast.Constant) and node.value in forms.FIELDS]
        batches = [ast.unparse(node) for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))]
        known = [name for name in batches if name not in ("hasattr",) and not name.endswith(".get")]
        yield f"{known[0]}.{names[0]}  # read-asked"

    def _loop(self, scope: Scope, depth: int) -> Iterator[str]:
        _, head = self._one_of(scope, forms.LOOPS)
        yield head
        yield from self._inner(replace(self._bound(scope, head), looped=True), depth)

    def _with(self, scope: Scope, depth: int) -> Iterator[str]:
        _, head = self._one_of(scope, forms.WITHS)
        yield head
        yield from self._inner(self._bound(scope, head), depth)

    def _bound(self, scope: Scope, head: str) -> Scope:
        parts = ast.walk(ast.parse(head + "\n    pass"))
        names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        return scope.with_batches(*sorted(names - {"_"}))

    def _while(self, scope: Scope, depth: int) -> Iterator[str]:
        number = self._number()
        yield f"round{number} = 0"
        yield f"while (round{number} := round{number} + 1) <= {self._flag()} + {self._flag()}:  # while"
        yield from self._inner(replace(scope, looped=True), depth)

    def _try(self, scope: Scope, depth: int) -> Iterator[str]:
        batch, name = self.random.choice(scope.batches), self.random.choice(self.fields)
        read = self.random.choice([f'{batch}["{name}"]', f"{batch}.{name}"])
        yield "try:"
        yield f"    {read}  # read-tried"
        if self._chance(0.3):
            yield from self._inner(scope, depth)
        yield self.random.choice(["except (KeyError, AttributeError):", "except Exception:"])
        yield f'    {batch}["{name}"] = A  # write-handler'
        if self._chance(0.2):
            yield "finally:"
            yield from self._inner(scope, depth)

    def _match(self, scope: Scope, depth: int) -> Iterator[str]:
        yield f"match {self._flag()}:  # match"
        yield "    case True:"
        yield from self._indented(self._inner(scope, depth))
        if self._chance(0.6):
            yield "    case _:"
            yield from self._indented(self._inner(scope, depth))

    def _closure(self, scope: Scope, depth: int) -> Iterator[str]:
        number = self._number()
        yield f"def inner{number}() -> None:  # closure"
        local = replace(scope, names=(), local_lists=(), local_tables=(), returned="", looped=False)
        if scope.names and self._chance(0.3):
            name = self.random.choice(scope.names)
            local = replace(local, names=(name,))
            yield f"    nonlocal {name}"
        yield from self._inner(local, 3)
        yield from self._body(scope, self.random.randint(0, 1), 3)
        yield f"inner{number}()  # call-closure"

    # ---- slots --------------------------------------------------------------------------------------------------

    def _one_of(self, scope: Scope, table: Forms) -> tuple[str, str]:
        """Return the kind and the text of a statement of a table that the scope can fill in."""
        slots = self._slots(scope)
        usable = [
            (kind, form)
            for kind, form in table
            if kind not in self.without and all(slots.get(slot) for slot in _slots_of(form))
            if scope.methods or kind != "method"
        ]
        if not usable:
            return "pass", "pass"
        kind, form = self.random.choice(usable)
        chosen: dict[str, str] = {}
        for slot in sorted(_slots_of(form)):
            others = [option for option in slots[slot] if option not in chosen.values()] or slots[slot]
            chosen[slot] = self.random.choice(others)
        text = form.format(**chosen)
        return kind, f"{text.replace('base.CURRENT', 'CURRENT') if self.module == 'base' else text}  # {kind}"

    def _slots(self, scope: Scope) -> dict[str, list[str]]:
        batches, names = list(scope.batches), list(scope.names)
        return {
            **self.roles,
            "b": batches,
            "c": batches,
            "v": names,
            "u": names,
            "l": [*scope.lists, *(f"{holder}.seen" for holder in scope.holders)],
            "d": list(scope.tables),
            "h": list(scope.holders),
            "L": list(scope.local_lists),
            "D": list(scope.local_tables),
            "f": [*self.fields, *self.favorites * 2],
            "g": self.fields,
            "o": list(forms.NESTED),
            "m": self.inner,
            "F": [self._flag()],
            "G": [self._flag()],
            "w": [self._batch()],
            "n": [str(self._number())],
        }

    def _batch(self) -> str:
        names = self.random.sample([name for name in self.fields if name != "rwe"], self.random.randint(1, 3))
        given = [f"{name}=A" for name in names]
        given += [f"{name}={self._nested()}" for name in forms.NESTED if self._chance(0.4)]
        return f"Batch({', '.join(given)})"

    def _nested(self) -> str:
        names = self.random.sample(self.inner, self.random.randint(1, 2))
        if self._chance(0.4):
            return "{" + ", ".join(f'"{name}": A' for name in names) + "}"
        return f"Batch({', '.join(f'{name}=A' for name in names)})"

    def _flag(self) -> str:
        return f"F{self.random.randrange(FLAGS)}"

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    @staticmethod
    def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
        found = False
        for line in lines:
            found = True
            yield f"    {line}"
        if not found:
            yield "    pass"


def _imported(package: str, module: str, *names: str) -> list[str]:
    """Return imports of a module and of names in it, one a line so that each can be taken away by itself."""
    return [f"from {package} import {module}", *(f"from {package}.{module} import {name}" for name in names)]


def draw(seed: int, number: int, without: Set[str] = frozenset()) -> Iterator[Package]:
    """Yield packages, always the same ones for a seed."""
    writer = Writer(Random(seed), without)
    for index in range(number):
        yield writer.package(f"p{index:04}")


def _slots_of(form: str) -> set[str]:
    return {slot for _, slot, _, _ in Formatter().parse(form) if slot}
