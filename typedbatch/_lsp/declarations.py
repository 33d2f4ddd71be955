"""Annotations of the fields of records and protocols, as their texts say them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from typedbatch._lsp.places import OTHER, Field, Seen
from typedbatch._program.classes import declared_fields, declared_kinds, lineage, name_of
from typedbatch._program.values import Class, Kind


class Declarations:
    """Annotations of the fields of records and protocols of a program."""

    def __init__(self) -> None:
        self._texts: dict[Kind, Mapping[str, str]] = {}
        self._merged: dict[tuple[int, Kind], tuple[Seen, Seen]] = {}

    def of(self, seen: Seen, kind: Kind) -> Seen:
        """Return a value with what a record or protocol declares of its fields.

        Args:
            seen: The value; of one that may be anything, the declared fields are known.
            kind: The record or protocol, with its type arguments.
        """
        known = self._merged.get((id(seen), kind))
        if known is None:  # The value is kept, as the number may be that of another one afterwards.
            known = self._merged[id(seen), kind] = seen, self._declared(seen, kind)
        return known[1]

    def _declared(self, seen: Seen, kind: Kind) -> Seen:
        declared = declared_fields(kind.cls)
        if declared is None or (seen.fields is None and not seen.is_unknown):
            return seen
        if kind not in self._texts:
            self._texts[kind] = dict(_texts_of(kind))
        texts = self._texts[kind]
        own = declared.required | declared.optional
        names = dict.fromkeys([*(name for name in texts if name in own), *sorted(own)])
        fields = seen.fields or {name: Field(name, OTHER) for name in names}
        fields = {name: replace(one, declared=texts.get(name, one.declared)) for name, one in fields.items()}
        return replace(seen, kind=name_of(kind.cls), fields=fields, is_declared=True)


def _texts_of(kind: Kind) -> Iterator[tuple[str, str]]:
    for name, kinds in declared_kinds(kind.cls, kind.args).items():
        yield name, " | ".join(name_of(one.cls) for one in kinds)
    for base in reversed(lineage(kind.cls)):
        if isinstance(base, Class):
            yield from _annotations_in(base)


def _annotations_in(cls: Class) -> Iterator[tuple[str, str]]:
    named = [node for node in cls.module.tree.body if isinstance(node, ast.ClassDef) and node.name == cls.name]
    for statement in named[-1].body if named else ():
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, ast.unparse(annotation)
            case ast.FunctionDef(name=name, returns=ast.expr() as annotation):
                yield name, ast.unparse(annotation)
            case _:
                pass
