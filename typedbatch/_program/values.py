"""Values of a run: a value is a tuple of atoms, and the expression may be any one of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from typing import Literal as OneOf

from typedbatch._program.arrays.declared import Declared
from typedbatch._program.arrays.values import Distribution, Layer, Layers, Plain
from typedbatch._program.arrays.values import Literal as PlainLiteral
from typedbatch._program.source import Source

_MOST = 10
"""Most atoms of a value. Beyond them a value is unknown, but its objects are still followed."""
_MOST_OBJECTS = 40


class Atom:
    """One of the things that a value may be."""

    __slots__ = ()


class Unknown(Atom):
    """Anything at all."""

    __slots__ = ()


class Array(Atom):
    """An array, a tensor or a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Shaped(Array):
    """An array of which a shape or dtype is known, a size, a slice, or a tuple of these."""

    held: Plain


class Ref(Atom):
    """An object on the heap, by identity, and the number of the call that made it."""

    __slots__ = ("maker",)

    def __init__(self, maker: int) -> None:
        self.maker = maker


@dataclass(frozen=True, slots=True)
class Literal(Atom):
    """A constant. The type is part of it, as ``1 == True``."""

    value: str | int | float | None
    type: type


@dataclass(frozen=True, slots=True)
class External(Atom):
    """Something that is imported from outside of the program.

    Attributes:
        name: Its full name.
        args: What its type arguments take, if it is a class of this package to which a program gives another name.
    """

    name: str
    args: tuple[Kinds | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Result(Atom):
    """A value that a call of something external returned, which is not an object of the program."""

    name: str


@dataclass(frozen=True, slots=True)
class Made(Result):
    """A layer or distribution of torch's, or ``...``."""

    held: Layer | Layers | Distribution | PlainLiteral


@dataclass(frozen=True, slots=True)
class Ragged(Atom):
    """A field of sequences, with the batch of their elements end to end."""

    values: Value


@dataclass(frozen=True, slots=True)
class Module(Atom):
    """A module of the program."""

    source: Source


@dataclass(eq=False, slots=True)
class Code:
    """The definition of a function.

    Attributes:
        kind: What a read of the function as an attribute gives: a bound method, or what its decorator makes of it.
        has_run: Whether the run has come to it.
        is_checked: Whether it raises before it runs if its arguments are not what it declares.
        is_stub: Whether its body is ``...``, so that it may do anything.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Source
    name: str
    owner: Class | None = None
    kind: OneOf["plain", "property", "cached", "static", "class", "context"] = "plain"
    is_abstract: bool = False
    has_run: bool = False
    is_checked: bool = False
    is_generator: bool = field(init=False)
    is_stub: bool = field(init=False)

    def __post_init__(self) -> None:
        body = [] if isinstance(self.node, ast.Lambda) else self.node.body
        self.is_stub = bool(body) and isinstance(body[-1], ast.Expr) and all(map(_is_constant, body))
        self.is_generator = self.node in self.module.vocabulary.generators

    @property
    def shown(self) -> str:
        """Name of the function, and of its class."""
        return f"{self.name} of {self.owner.name}" if self.owner is not None else self.name

    @property
    def returns(self) -> ast.expr | None:
        """Annotation of the result."""
        return None if isinstance(self.node, ast.Lambda) else self.node.returns


class Kind(NamedTuple):
    """A class of values that a field or parameter takes.

    Attributes:
        cls: The class; ``numpy.ndarray`` and ``torch.Tensor`` for arrays, however they are declared.
        args: What each of its type arguments takes; None for one that may be anything.
    """

    cls: Atom
    args: tuple[Kinds | None, ...] = ()


Kinds = tuple[Kind, ...]
"""Classes of which a value is of one."""


def kinds_of_array(*, torch: bool) -> Kinds:
    """Return the kinds of an array of numpy or of a tensor of torch."""
    return (Kind(External("torch.Tensor" if torch else "numpy.ndarray")),)


@dataclass(eq=False, slots=True)
class Class(Atom):
    """A class of the program.

    Attributes:
        fields: Names that are annotated in its body, and whether each may be left out.
        arrays: Declared shapes of the fields.
        kinds: Classes that the fields take, where they are known.
        arguments: Type arguments of its bases.
        derived: Classes that name it as a base.
        has_metaclass: Whether a class of its own makes the instances.
    """

    name: str
    module: Source
    bases: list[Atom]
    attributes: dict[str, Value] = field(default_factory=dict[str, "Value"])
    fields: dict[str, bool] = field(default_factory=dict[str, bool])
    arrays: dict[str, Declared] = field(default_factory=dict[str, Declared])
    kinds: dict[str, Kinds] = field(default_factory=dict[str, "Kinds"])
    arguments: dict[Atom, tuple[Kinds | None, ...]] = field(default_factory=dict[Atom, "tuple[Kinds | None, ...]"])
    derived: list[Class] = field(default_factory=list["Class"])
    has_metaclass: bool = False


@dataclass(frozen=True, slots=True)
class TypeVariable(Atom):
    """A type variable, with the class that it is bound to."""

    bound: Class | External


@dataclass(frozen=True, slots=True)
class Annotation(Atom):
    """An annotation that declares the shape of an array, to which a program gives a name."""

    declared: Declared


@dataclass(frozen=True, slots=True)
class Function(Atom):
    """A function, with the scope in which it is defined."""

    code: Code
    scope: Ref


@dataclass(frozen=True, slots=True)
class Method(Atom):
    """A function of the program that is bound to its first argument."""

    function: Function
    receiver: Atom


@dataclass(frozen=True, slots=True)
class Member(Atom):
    """A method of a batch, list, dict or buffer, which is a row of a table."""

    receiver: Atom
    name: str


@dataclass(frozen=True, slots=True)
class Partial(Atom):
    """A function with some of its arguments."""

    function: Value
    args: tuple[Value, ...]
    named: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Context(Atom):
    """A call of a function with ``@contextmanager``, which runs when ``with`` comes to it."""

    function: Function | Method
    args: tuple[Value, ...]
    named: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Decorated(Atom):
    """A function with a decorator that may do anything, and so may call it with anything."""

    function: Function | Method


@dataclass(frozen=True, slots=True)
class Super(Atom):
    """``super()`` in a method of a class."""

    owner: Class
    receiver: Atom


@dataclass(frozen=True, slots=True)
class Factory(Atom):
    """The ``default_factory`` of a field of a dataclass."""

    function: Value


Value = tuple[Atom, ...]

_WITHOUT_EFFECTS: Final = (Array, External, Literal, Result, Unknown)
UNKNOWN: Final[Value] = (Unknown(),)
ARRAY: Final[Value] = (Array(),)
NONE: Final[Value] = (Literal(None, type(None)),)


def constant(value: str | int | float | None) -> Value:
    """Return the value of a constant."""
    return (Literal(value, type(value)),)


def union(*values: Value) -> Value:
    """Return what may be any of the values. One of no atoms adds nothing."""
    first = values[0] if values else ()
    if all(value is first or value == first for value in values):
        return first
    atoms = dict.fromkeys(atom for value in values for atom in value)
    if len(atoms) > _MOST:
        return (*UNKNOWN, *[atom for atom in atoms if not isinstance(atom, _WITHOUT_EFFECTS)][:_MOST_OBJECTS])
    return tuple(atoms)


def literal_of(value: Value) -> Literal | None:
    """Return the only constant that a value may be, or None."""
    return value[0] if len(value) == 1 and isinstance(value[0], Literal) else None


def text_of(value: Value | None) -> str | None:
    """Return the only string that a value may be, or None."""
    found = literal_of(value) if value else None
    return found.value if found is not None and isinstance(found.value, str) else None


def is_none(atom: Atom) -> bool:
    """Return whether an atom is None."""
    return isinstance(atom, Literal) and atom.value is None


def is_numeric(atom: Atom) -> bool:
    """Return whether an atom is a number or an array, or is made by numpy or torch, and cannot be text."""
    if isinstance(atom, Literal):
        return isinstance(atom.value, (int, float))
    return isinstance(atom, Array) or (isinstance(atom, Result) and atom.name.startswith(("numpy.", "torch.")))


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
