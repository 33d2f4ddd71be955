"""Exceptions of single servers: exactly the fields or names that they do not offer, and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.evidence.editor.questions import (
    CALLS,
    FIELDS,
    OWN,
    VALUES,
    Question,
    begun_keyword_not_offered,
    keywords_not_ahead,
    later_keywords_not_offered,
    not_ahead,
    not_by_name,
    not_offered,
    undocumented_offers,
    unsigned,
    untyped_hovers,
    untyped_offers,
)


class Known(NamedTuple):
    """The names that are wrong, and the reason."""

    names: tuple[str, ...]
    reason: str


_MORE: Final = {"own record": ("goal",), "extended": ("returns",)}
_GENERIC: Final = ("protocol parameter", "record", "extended")
"""Values with fields whose type is a variable in the class that declares them."""

_OWN_FIRST: Final = "fields that the class inherits stand among the methods, by name"
_SPELT: Final = (
    "offers spell the type as the declaring class does, `rew: K_co@RolloutBatch`; a hover has the solved one"
)
_NO_TYPES: Final = "offers come with their docstring, without a type; a hover has both"
_NO_DOCS: Final = "offers come with their type, without the docstring; a hover has both"
_NO_BOUND: Final = "members of the bound of a type variable are not looked for, so no field is offered"
_NO_DEFAULTS: Final = "defaults of type variables are not known, so that fields which have one for their type have none"
_NO_ALIAS: Final = "behind Python 3.11 numpy's NDArray is taken for a value, so that what it annotates has no type"
_ANY_FIRST: Final = "members of the type Any, which every batch has, stand before the others"
_INIT: Final = "a base with brackets hides dataclass_transform, so that keywords and signature are those of `Batch`"


def _inherited(value: str) -> Known:
    """Of the fields that are inherited, ``act`` alone comes first all the same: by its name."""
    return Known(tuple(field for field in FIELDS if field != "act"), _OWN_FIRST)


def _fields(values: tuple[str, ...], reason: str) -> dict[str, Known]:
    return {value: Known(_MORE.get(value, FIELDS), reason) for value in values}


def _keywords(reason: str, *without: str) -> dict[str, Known]:
    return {call: Known(tuple(name for name in CALLS[call] if name not in without), reason) for call in CALLS}


_OF_PROTOCOLS: Final = ("protocol parameter", "validated value", "type variable")

_JEDI_UNTYPED: Final = {
    "protocol parameter": Known(FIELDS, _NO_DEFAULTS),
    "record": Known(tuple(field for field in FIELDS if field != "info"), _NO_DEFAULTS),
    "extended": Known(("returns",), _NO_DEFAULTS),
    "converted": Known(("obs", "obs_next", "act"), _NO_DEFAULTS),
}
if sys.version_info >= (3, 12):
    _JEDI_UNTYPED.update(_fields(("record", "own record", "converted"), _NO_ALIAS))

_PYRIGHT: Final[Mapping[Question, Mapping[str, Known]]] = {
    not_ahead: {value: _inherited(value) for value in _MORE},
    untyped_offers: _fields((*_GENERIC, "converted"), _SPELT),
}

EXCEPTIONS: Final[Mapping[str, Mapping[Question, Mapping[str, Known]]]] = {
    "pyright": _PYRIGHT,
    "basedpyright": _PYRIGHT,
    "ty": {undocumented_offers: _fields(OWN, _NO_DOCS)},
    "pyrefly": {
        not_by_name: {value: Known(("meta", "values"), _ANY_FIRST) for value in VALUES if value not in _OF_PROTOCOLS},
    },
    "zuban": {
        not_offered: {"type variable": Known(FIELDS, _NO_BOUND)},
        untyped_offers: _fields((*OWN, "converted"), _NO_TYPES),
    },
    "jedi": {
        untyped_offers: _JEDI_UNTYPED,
        untyped_hovers: _fields(_GENERIC, _NO_DEFAULTS),
        keywords_not_ahead: _keywords(_INIT),
        later_keywords_not_offered: _keywords(_INIT, "obs", "act"),
        begun_keyword_not_offered: {call: Known(("terminated",), _INIT) for call in CALLS},
        unsigned: _keywords(_INIT),
    },
}
"""server -> question -> what it is about -> what is amiss."""


def expected(server: str, question: Question, about: str) -> Known:
    """Return the names that are known to be wrong; usually none."""
    return EXCEPTIONS[server].get(question, {}).get(about, Known((), ""))
