"""Classes of a program: their bases in order, attributes, and the fields of records and protocols."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from typedbatch._program.arrays.declared import Declared as Array
from typedbatch._program.shipped import Declared, arrays_of, declared_by, shipped, shipped_kinds
from typedbatch._program.values import Atom, Class, External, Kind, Kinds, Value
from typedbatch.batch import Batch

PLAIN_BASES: Final = frozenset({"object", "Module", "Generic", "ABC", "Protocol"})
"""Classes whose constructors keep nothing of their arguments, and whose instances are true."""
_MODULES: Final = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
_RECORD: Final = "typedbatch.BatchRecord"
T = TypeVar("T")


def lineage(cls: Atom) -> list[Atom]:
    """Return a class with all that it derives from, nearest first; a class that derives from itself is left out."""
    seen: set[Atom] = {cls}
    found: list[Atom] = []
    todo = [(cls, False)]
    while todo:  # A class comes after all that derive from it: the order is reversed at the end.
        one, is_done = todo.pop()
        if is_done or not isinstance(one, Class):
            found.append(one)
            continue
        todo.append((one, True))
        for base in one.bases:
            if base not in seen:
                seen.add(base)
                todo.append((base, False))
    return found[::-1]


def base_names(cls: Atom) -> set[str]:
    """Return the last names of the classes from outside of the program that a class derives from."""
    return {base.name.rpartition(".")[2] for base in lineage(cls) if isinstance(base, External)}


def attribute_of(cls: Atom, name: str, *, after: Class | None = None) -> Value | None:
    """Return an attribute of a class, as it is in its body; with ``after``, one that ``super()`` finds there."""
    classes = lineage(cls)
    if after is not None:
        classes = classes[classes.index(after) + 1 :] if after in classes else classes
    for one in classes:
        if isinstance(one, Class) and name in one.attributes:
            return one.attributes[name]
    return None


def overrides_of(cls: Class, name: str) -> list[Value]:
    """Return what derived classes have in place of an attribute."""
    found: list[Value] = []
    for derived in cls.derived:
        if name in derived.attributes:
            found.append(derived.attributes[name])
        found += overrides_of(derived, name)
    return found


def declared_fields(cls: Atom) -> Declared | None:
    """Return the fields of a record or protocol of batches; None for other classes, and for Batch."""
    if isinstance(cls, External):
        found = shipped(cls.name)
        return declared_by(found) if isinstance(found, Hashable) else None  # a table of this package is a dict
    if not isinstance(cls, Class):
        return None
    required, optional, is_batch = set[str](), set[str](), False
    for base in reversed(lineage(cls)):
        if isinstance(base, External):
            inherited = declared_by(shipped(base.name))
            is_batch = is_batch or inherited is not None or base.name == _RECORD or shipped(base.name) is Batch
            required |= inherited.required if inherited is not None else set()
            optional |= inherited.optional if inherited is not None else set()
        elif isinstance(base, Class):
            for name, may_lack in base.fields.items():
                (optional if may_lack else required).add(name)
                (required if may_lack else optional).discard(name)
    return Declared(frozenset(required), frozenset(optional)) if is_batch else None


def declared_arrays(cls: Atom, libraries: Sequence[bool | None] = ()) -> dict[str, Array]:
    """Return the declared shapes of the fields of a record or protocol.

    Args:
        cls: The class.
        libraries: Whether each of its type parameters is torch's tensor, where that is known.
    """
    found: dict[str, Array] = {}
    for base in reversed(lineage(cls)):
        if isinstance(base, Class):
            found.update(base.arrays)
        elif isinstance(base, External):
            for name, (array, parameter) in arrays_of(shipped(base.name)).items():
                torch = array.torch if parameter is None else _argument(libraries, parameter) if libraries else None
                if torch is not None:
                    found[name] = replace(array, torch=torch)
    return found


def declared_kinds(cls: Atom, args: Sequence[Kinds | None] = ()) -> dict[str, Kinds]:
    """Return what the fields of a record or protocol take, where that is known.

    Args:
        cls: The class.
        args: What its type arguments take.
    """
    found: dict[str, Kinds] = {}
    given = {cls: tuple(args)}
    for base in lineage(cls):
        if isinstance(base, Class):
            given = {**base.arguments, **given}
    for base in reversed(lineage(cls)):
        if isinstance(base, Class):
            found = {name: kinds for name, kinds in found.items() if name not in base.fields} | base.kinds
        elif isinstance(base, External):
            arguments = given.get(base, ())
            for name, (classes, parameter) in shipped_kinds(shipped(base.name)).items():
                # Where there are type arguments, a field that is not one of them takes arrays of both libraries.
                more = ("torch.Tensor",) if arguments and "numpy.ndarray" in classes else ()
                kinds: Kinds | None = tuple(Kind(External(one)) for one in (*classes, *more))
                if parameter is not None and arguments:
                    kinds = _argument(arguments, parameter)
                if kinds is not None:
                    found[name] = kinds
    return found


def kinds_of(cls: Class, name: str) -> Kinds | None:
    """Return what an annotated name in the body of a class takes, as a field of a dataclass."""
    owner = next((base for base in lineage(cls) if isinstance(base, Class) and name in base.fields), None)
    return owner.kinds.get(name) if owner is not None else None


def library_of(kinds: Kinds | None) -> bool | None:
    """Return whether a type argument takes torch's tensors; None if it takes others than torch's or numpy's arrays."""
    names = {kind.cls.name for kind in kinds or () if isinstance(kind.cls, External)}
    return None if len(names) != 1 else {"torch.Tensor": True, "numpy.ndarray": False}.get(names.pop())


def _argument(args: Sequence[T], parameter: int) -> T:
    """Return what a type parameter stands for; the default of those behind the first is what that one stands for."""
    return args[parameter if parameter < len(args) else 0]


def is_module(cls: Atom) -> bool:
    """Return whether a class is a module of torch's."""
    return any(isinstance(one, External) and one.name in _MODULES for one in lineage(cls))


def is_protocol(cls: Atom) -> bool:
    """Return whether a class is a protocol, whose fields can be read alone."""
    if isinstance(cls, External):
        return bool(getattr(shipped(cls.name), "_is_protocol", False))
    return isinstance(cls, Class) and any(name_of(base).endswith("Protocol") for base in cls.bases)


def name_of(cls: Atom) -> str:
    """Return the name of a class."""
    if isinstance(cls, External):
        return cls.name.rpartition(".")[2]
    return cls.name if isinstance(cls, Class) else "a class"
