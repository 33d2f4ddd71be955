"""Marks of fields with one number per step, ``Annotated[Array, PerStep]``: noted with the class, which mypy caches."""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import AssignmentStmt, FuncDef, NameExpr, TypeInfo
from mypy.types import UnboundType

_HOME: Final = "typedbatch._steps."
_KEPT: Final = "typedbatch steps"


def note_mark(analyser: Any, annotation: UnboundType) -> None:
    """Note the mark in an annotation for the field that is declared by it, if it is in the body of a class."""
    semantic = analyser.api
    mark = next(filter(None, (_mark(analyser, arg) for arg in annotation.args[1:])), None)
    owner, statement = getattr(semantic, "type", None), getattr(semantic, "statement", None)
    if mark is None or not isinstance(owner, TypeInfo):
        return
    field = ""
    if isinstance(statement, FuncDef):
        field = statement.name
    elif isinstance(statement, AssignmentStmt) and isinstance(statement.lvalues[0], NameExpr):
        field = statement.lvalues[0].name
    if field:
        owner.metadata.setdefault(_KEPT, {})[field] = mark


def _mark(analyser: Any, argument: object) -> str | None:
    if not isinstance(argument, UnboundType):
        return None
    found = analyser.api.lookup_qualified(argument.name, argument, suppress_errors=True)
    name = (found.fullname or "") if found is not None else ""
    return name.removeprefix(_HOME) if name.startswith(_HOME) else None


def mark_of(owner: TypeInfo, field: str) -> str | None:
    """Return the name of the mark of a field, by the class that declares it: ``PerStep``, ``Flag``, ``StepsFirst``."""
    base = owner.get_containing_type_info(field)
    return base.metadata.get(_KEPT, {}).get(field) if base is not None else None
