"""Fields of a batch, and their form as a type.

A plain ``Batch`` is ``Batch[Any]`` under the plugin. One whose fields are known is ``Batch[Any | {obs: ..., act: ..}]``
with an anonymous TypedDict; its optional keys are the fields that only some ways to the line have set. A third item
says what else there may be: ``More``, or ``Declared``. The ``Any`` lets every Batch stand for every other, as they are
one class to Python, so that variables can be bound again and lists can be mixed. The rest keeps them apart where mypy
follows a name line by line, as that compares properly: without ``Any`` as a wildcard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce

from mypy.typeops import make_simplified_union
from mypy.types import AnyType, Instance, NoneType, Type, TypedDictType, TypeOfAny, UnionType, get_proper_type

from typedbatch.mypy.internals import Api, class_named, same

BATCH = "typedbatch.batch.Batch"
MISSING = "typedbatch._typing.Missing"
MORE = "typedbatch._typing.More"
DECLARED = "typedbatch._typing.Declared"


class Rest(Enum):
    """Knowledge of the fields that are not listed."""

    NONE = "there are none"
    OPEN = "there may be any: who set them is not seen"
    DECLARED = "nothing is known: somebody declared a ``Batch``, and what is read of it must be written here first"


@dataclass(frozen=True)
class Fields:
    """The fields of a batch.

    Attributes:
        known: their types.
        maybe: those that only some ways to the line have set.
        rest: what else there may be.
    """

    known: Mapping[str, Type] = field(default_factory=dict)
    maybe: frozenset[str] = frozenset()
    rest: Rest = Rest.NONE

    def __contains__(self, name: str) -> bool:
        """Is the field there, on some way at least."""
        return name in self.known

    def updated(self, new: Mapping[str, Type]) -> Fields:
        """Return them with some fields, whatever these were before."""
        return replace(self, known={**self.known, **new}, maybe=self.maybe - new.keys())

    def without(self, name: str) -> Fields:
        """Return them without a field."""
        kept = {one: type_ for one, type_ in self.known.items() if one != name}
        return replace(self, known=kept, maybe=self.maybe - {name})

    def opened(self, types_too: bool = False) -> Fields:
        """Return them for a batch that may get any other field, and with ``types_too`` may change those that it has."""
        known = dict.fromkeys(self.known, anything()) if types_too else self.known
        return replace(self, known=known, rest=Rest.OPEN if self.rest is Rest.NONE else self.rest)

    def followed_by(self, later: Fields) -> Fields:
        """Return them updated by the fields of another batch."""
        known = dict(self.known)
        for name, type_ in later.known.items():
            known[name] = joined([known[name], type_]) if name in later.maybe and name in known else type_
        surely = (self.known.keys() - self.maybe) | (later.known.keys() - later.maybe)
        return Fields(known, frozenset(known.keys() - surely), _rest_of([self.rest, later.rest], added=True))

    def mapped(self, change: Callable[[Type], Type]) -> Fields:
        """Return them with other types."""
        return replace(self, known={name: change(type_) for name, type_ in self.known.items()})


def met(api: Api, ways: Sequence[Fields]) -> Fields:
    """Return the fields where branches meet: those of every branch are there, those of some may be."""
    if len(ways) == 1:
        return ways[0]
    names = list(dict.fromkeys(name for fields in ways for name in fields.known))
    found = {name: [fields.known[name] for fields in ways if name in fields] for name in names}
    surely = {n for n in names if len(found[n]) == len(ways) and not any(n in fields.maybe for fields in ways)}
    known = {name: _met_types(api, types) for name, types in found.items()}
    return Fields(known, frozenset(names) - surely, _rest_of([fields.rest for fields in ways]))


def _rest_of(rests: Iterable[Rest], added: bool = False) -> Rest:
    kinds = set(rests)
    if added and Rest.DECLARED in kinds:
        return Rest.DECLARED
    return kinds.pop() if len(kinds) == 1 else Rest.OPEN


def _met_types(api: Api, types: list[Type]) -> Type:
    nested = [known_fields(one) for one in types]
    known = [fields for fields in nested if fields is not None]
    return batch_of(api, met(api, known)) if len(known) == len(types) else joined(types)


_MOST_TYPES = 4


def joined(types: list[Type]) -> Type:
    """Return one type for a value that is of one of these, which is Any where they are many."""
    first = types[0]
    if all(same(first, other) for other in types[1:]):
        return first
    union = get_proper_type(make_simplified_union(types))
    return anything() if isinstance(union, UnionType) and len(union.items) > _MOST_TYPES else union


def known_fields(type_: Type | None) -> Fields | None:
    """Return the fields of a batch that the plugin knows; None for a plain Batch, and for anything else.

    Where lists are mixed or names bound again, mypy may join several field sets into one type; then a field that not
    all of them have may be there.
    """
    proper = get_proper_type(type_) if type_ is not None else None
    if not isinstance(proper, Instance) or proper.type.fullname != BATCH or len(proper.args) != 1:
        return None
    inner = get_proper_type(proper.args[0])
    items = [get_proper_type(item) for item in inner.items] if isinstance(inner, UnionType) else [inner]
    sets = [item for item in items if isinstance(item, TypedDictType)]
    if not sets:
        return None
    marks = {item.type.fullname for item in items if isinstance(item, Instance)}
    rest = Rest.OPEN if MORE in marks else Rest.DECLARED if DECLARED in marks else Rest.NONE
    return reduce(_either_set, (_of_typed_dict(item, rest) for item in sets))


def _of_typed_dict(type_: TypedDictType, rest: Rest) -> Fields:
    return Fields(type_.items, frozenset(type_.items.keys() - type_.required_keys), rest)


def _either_set(one: Fields, other: Fields) -> Fields:
    known = {**one.known, **other.known}
    for name in one.known.keys() & other.known.keys():
        known[name] = one.known[name] if same(one.known[name], other.known[name]) else anything()
    surely = (one.known.keys() - one.maybe) & (other.known.keys() - other.maybe)
    return Fields(known, frozenset(known.keys() - surely), _rest_of([one.rest, other.rest]))


def alternatives(type_: Type | None) -> list[Type]:
    """Return the items of a union, or else the type itself."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, UnionType):
        return [inner for item in proper.items for inner in alternatives(item)]
    return [] if proper is None else [proper]


def is_batch(type_: Type | None) -> bool:
    """Is it ``Batch`` itself, plain or known; not a class derived from it."""
    proper = get_proper_type(type_) if type_ is not None else None
    return isinstance(proper, Instance) and proper.type.fullname == BATCH


def is_placeholder(type_: Type) -> bool:
    """Return whether it is ``None`` or a batch without fields, in whose place a program often puts something later."""
    return isinstance(get_proper_type(type_), NoneType) or known_fields(type_) == Fields()


def content(type_: Type | None) -> Fields | None:
    """Return the fields of a batch, of a plain one too; None for what is not a ``Batch``."""
    fields = known_fields(type_)
    return Fields(rest=Rest.DECLARED) if fields is None and is_batch(type_) else fields


def one_type(api: Api, type_: Type) -> Type:
    """Return one type in place of a union of batches, so that what branches leave behind does not grow."""
    ways = alternatives(type_)
    batches = [one for one in ways if is_batch(one)]
    if len(batches) < 2:
        return type_
    contents = [found for found in map(content, batches) if found is not None]
    return UnionType.make_union([batch_of(api, met(api, contents)), *(one for one in ways if not is_batch(one))])


def batch_of(api: Api, fields: Fields) -> Type:
    """Return the type of a batch with fields, whose names are sorted as in mypy's cache, for the same messages."""
    if fields.rest is Rest.DECLARED and not fields.known:
        return plain_batch(api)
    info, fallback = class_named(api, BATCH), class_named(api, "typing._TypedDict")
    if info is None or fallback is None:
        return anything()
    items = {name: fields.known[name] for name in sorted(fields.known)}
    known = TypedDictType(items, items.keys() - fields.maybe, set(items), Instance(fallback, []))
    return Instance(info, [UnionType([anything(), known, *_marks(api, fields.rest)])])


def _marks(api: Api, rest: Rest) -> Iterator[Type]:
    named = {Rest.OPEN: MORE, Rest.DECLARED: DECLARED}.get(rest)
    info = class_named(api, named) if named is not None else None
    if info is not None:
        yield Instance(info, [])


def plain_batch(api: Api) -> Type:
    """Return a Batch of which nothing is known."""
    info = class_named(api, BATCH)
    return Instance(info, [anything()]) if info is not None else anything()


def missing_field(api: Api) -> Type:
    """Return a type for a field that is not there, which fits no declaration."""
    info = class_named(api, MISSING)
    return Instance(info, []) if info is not None else anything()


def anything() -> Type:
    """Return ``Any``, for what is not known."""
    return AnyType(TypeOfAny.special_form)
