"""Annotations of the fields of records and protocols, as their texts say them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from typedbatch._lsp.places import OTHER, Field, Seen
from typedbatch._program.classes import declared_fields, lineage
from typedbatch._program.values import Atom, Class


class Declarations:
    """Annotations of the fields of records and protocols of a program."""

    def __init__(self) -> None:
        self._texts: dict[Atom, Mapping[str, str]] = {}
        self._merged: dict[tuple[int, Atom], tuple[Seen, Seen]] = {}

    def of(self, seen: Seen, cls: Atom) -> Seen:
        """Return a value with what a record or protocol declares of its fields.

        Args:
            seen: The value; one that is not a batch has the declared fields alone.
            cls: The record or protocol.
        """
        known = self._merged.get((id(seen), cls))
        if known is None:  # The value is kept, as the number may be that of another one afterwards.
            known = self._merged[id(seen), cls] = seen, self._declared(seen, cls)
        return known[1]

    def _declared(self, seen: Seen, cls: Atom) -> Seen:
        declared = declared_fields(cls)
        if declared is None or (seen.fields is None and not seen.is_unknown):
            return seen
        texts = self._texts_of(cls)
        fields = seen.fields or {name: Field(name, OTHER) for name in sorted(declared.required | declared.optional)}
        fields = {name: replace(one, declared=texts.get(name, one.declared)) for name, one in fields.items()}
        return replace(seen, fields=fields, is_declared=True)

    def _texts_of(self, cls: Atom) -> Mapping[str, str]:
        if cls not in self._texts:
            found = dict[str, str]()
            for base in reversed(lineage(cls)):
                if isinstance(base, Class):
                    found.update(_annotations_in(base))
            self._texts[cls] = found
        return self._texts[cls]


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
