"""Whether a batch is what a protocol asks for: which fields it lacks, and which are of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Expression
from mypy.typeops import get_type_vars
from mypy.types import AnyType, Instance, NoneType, ProperType, Type, TypeOfAny, TypeVarType, UnionType, get_proper_type

from typedbatch._program.arrays.values import Array
from typedbatch.mypy import messages
from typedbatch.mypy.batches.content import Content, Field, Presence, Ref
from typedbatch.mypy.declared import is_array
from typedbatch.mypy.internals import Api, fits, member_of
from typedbatch.mypy.types.declare import RECORD
from typedbatch.mypy.types.extend import PROTOCOL, declared_fields
from typedbatch.mypy.types.fields import Fields, Rest, alternatives, content, is_placeholder, known_fields, one_type
from typedbatch.mypy.types.stored import tensor

if TYPE_CHECKING:
    from typedbatch.mypy.engine.reading import Reading


def asked_protocol(type_: Type | None) -> Instance | None:
    """Return the protocol of batches that is asked for; ``None`` beside it and a type variable make no difference."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, TypeVarType):
        proper = get_proper_type(proper.upper_bound)
    if isinstance(proper, UnionType):
        items = [item for item in map(get_proper_type, proper.items) if not _is_ignored(item)]
        proper = items[0] if len(items) == 1 else proper
    if isinstance(proper, Instance) and proper.type.is_protocol and proper.type.has_base(PROTOCOL):
        return proper
    return None


def left_to_engine(type_: Type) -> Type:
    """Return a type that takes any batch, and still says which protocol is asked for."""
    return UnionType([AnyType(TypeOfAny.implementation_artifact), type_])


def _is_ignored(item: ProperType) -> bool:
    if isinstance(item, AnyType):
        return item.type_of_any == TypeOfAny.implementation_artifact
    return isinstance(item, NoneType)


def lacking(reading: Reading, batch: Expression, value: Any, asked: Instance) -> tuple[str, ErrorCode] | None:
    """Return what is to be said of a batch that is not what a protocol asks for, with its code; None if it may be."""
    names = [name for name, _ in declared_fields(asked.type)]
    contents = contents_of(reading, batch, value)
    if contents is None:
        return None
    missing = [name for name in names if is_lacking(reading, contents, name)]
    if missing:
        return messages.lacking(
            asked.type.name, missing, shown_fields(contents), converted=reading.conversion(batch)
        ), messages.ARGUMENT
    maybe = may_lack(reading, contents, value, asked, "")
    if maybe is not None:
        return messages.may_lack(asked.type.name, *maybe), messages.MAYBE
    text = wrong_type(reading, batch, asked, names, contents)
    return (text, messages.ARGUMENT) if text else None


def contents_of(reading: Reading, batch: Expression, value: Any) -> list[Content] | None:
    """Return what a batch may hold; None for what may be something else."""
    type_ = get_proper_type(reading.type_of(batch))
    fields = content(one_type(reading.api, type_)) if type_ is not None else None
    is_untyped = isinstance(type_, AnyType) and isinstance(value, Ref)
    if fields is None and not is_untyped:
        return None  # as where it is narrowed to a protocol
    if isinstance(value, Ref):
        contents = [reading.known.objects.of(one) for one in value.objects]
        return contents if all(isinstance(one, Content) for one in contents) else None
    return [Content(rest=fields.rest, escaped=True)] if fields is not None else None


def is_lacking(reading: Reading, contents: list[Content], name: str) -> bool:
    """Return whether no batch of these can have a field, for all that can be seen."""
    return not reading.is_excused(name) and all(_lacks(reading, one, name) for one in contents)


def _lacks(reading: Reading, made: Content, name: str) -> bool:
    if made.presence(name) is Presence.ABSENT:
        return True
    if name in made.fields or made.rest is Rest.OPEN:
        return False
    if made.rest is Rest.DECLARED:
        return not made.widened
    names = reading.names_of_file()
    return names is not None and name not in names.made


def shown_fields(contents: list[Content]) -> Fields:
    """Return the fields of a batch for a message."""
    known = {name: NoneType() for made in contents for name, field in made.fields.items() if field.sure}
    rest = Rest.DECLARED if any(made.rest is Rest.DECLARED for made in contents) else Rest.NONE
    return Fields(known, rest=rest)


def may_lack(
    reading: Reading, contents: list[Content], value: Any, asked: Instance, path: str
) -> tuple[str, int] | None:
    """Return the path of a field that only some runs have set, with the line that it depends on."""
    for name, _ in declared_fields(asked.type):
        choice = reading.batches.judge.choice_of(name, contents, value)
        if choice is not None and reading.always_follows(choice) and not reading.is_excused(name):
            return f"{path}{name}", choice.line
        inner = asked_protocol(member_of(asked, name))
        held = contents[0].fields.get(name) if len(contents) == 1 else None
        nested = held.value if held is not None else None
        if inner is not None and isinstance(nested, Ref) and path.count(".") < _DEPTH:
            inside = [reading.known.objects.of(one) for one in nested.objects]
            if all(isinstance(one, Content) for one in inside):
                found = may_lack(reading, inside, nested, inner, f"{path}{name}.")
                if found is not None:
                    return found
    return None


_DEPTH = 4


def _is_in_sight(reading: Reading, contents: list[Content], name: str, type_: Type) -> bool:
    """Return whether a field is certain to be of the type that mypy has; others may have replaced it."""
    ways, pairs = alternatives(type_), [(made, made.fields.get(name, Field())) for made in contents]
    is_set = not any(map(is_placeholder, ways))
    is_seen = all(not made.widened and (not made.escaped or (is_set and held.line > 0)) for made, held in pairs)
    return is_seen and all(_agrees(reading, held.value, way) for _, held in pairs for way in ways)


def _agrees(reading: Reading, value: Any, type_: Type) -> bool:
    """Return whether a value that the engine has followed is of a type that mypy has."""
    whole, fields = reading.known.objects.whole(value), known_fields(type_)
    if isinstance(value, Array):
        return is_array(type_) and value.torch == fits(type_, tensor(reading.api))
    if fields is None or not isinstance(whole, Content):
        return value is not None and not isinstance(whole, Content)
    is_open = whole.rest is not Rest.NONE and fields.rest is Rest.NONE
    if is_open or whole.fields.keys() != fields.known.keys():
        return False
    return all(_is_in_sight(reading, [whole], name, inner) for name, inner in fields.known.items())


def wrong_type(reading: Reading, batch: Expression, asked: Instance, names: list[str], contents: list[Content]) -> str:
    """Return a message about a field whose type is not the declared one; empty if all are."""
    type_ = reading.type_of(batch)
    fields = content(one_type(reading.api, type_)) if type_ is not None else None
    if fields is None or get_type_vars(asked):
        return ""  # What a type variable stands for is found by mypy.
    for name in by_kind(asked, names):
        expected = member_of(asked, name)
        if expected is None or name not in fields:
            continue
        type_ = fields.known[name]
        if not all(fits(one, expected) for one in alternatives(type_)) and _is_in_sight(reading, contents, name, type_):
            return messages.wrong(reading.api, f'"{name}" of {asked.type.name}', expected, type_)
    return ""


def by_kind(asked: Instance, names: list[str]) -> list[str]:
    """Return the fields of one kind before those of several, as ``info``, which say less of what is wrong."""
    return sorted(names, key=lambda name: isinstance(get_proper_type(member_of(asked, name)), UnionType))


def judge_declared(api: Api, type_: Type, asked: Instance) -> str:
    """Return what is to be said of a record or protocol that is not what is asked for; empty if mypy will say it."""
    given = get_proper_type(type_)
    if not isinstance(given, Instance) or not (given.type.has_base(PROTOCOL) or given.type.has_base(RECORD)):
        return ""
    if fits(given, asked):
        return ""
    declared = Fields(dict.fromkeys((name for name, _ in declared_fields(given.type)), given))
    names = [name for name, _ in declared_fields(asked.type)]
    missing = [name for name in names if name not in declared and member_of(given, name) is None]
    if missing and declared.known:
        return messages.lacking(asked.type.name, missing, declared, given.type.name)
    for name in by_kind(asked, names):
        expected, got = member_of(asked, name), member_of(given, name)
        if expected is not None and got is not None and not get_type_vars(asked) and not fits(got, expected):
            return messages.wrong(api, f'"{name}" of {asked.type.name}', expected, got)
    return ""
