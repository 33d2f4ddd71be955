"""Renaming of a field of plain batches in a project, which is refused where it cannot be certain."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mypy.nodes import CallExpr, ClassDef, ComparisonExpr, Expression, IndexExpr, MemberExpr, MypyFile, Node, StrExpr
from mypy.types import AnyType, Instance, Type, get_proper_type

from typedbatch._lsp.checker import Checker
from typedbatch._lsp.fields import field_at
from typedbatch.batch import Batch
from typedbatch.cli.mypy_run import tree_of
from typedbatch.errors import SettingError
from typedbatch.mypy.nodes import nodes_in
from typedbatch.mypy.types.fields import BATCH, alternatives, is_batch


def rename(checker: Checker, path: str, line: int, column: int, new: str | None) -> dict[str, Any] | None:
    """Return the edits that give a field another name in all plain batches of a project.

    Args:
        checker: The program.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
        new: New name; None to ask whether there is a field at the place.

    Returns:
        The name and the edits; None if no field of a plain batch is named at the place.

    Raises:
        SettingError: The new name is not free, or it cannot be told whether a place in the project means the field.
    """
    named = field_at(checker, path, line, column)
    if named is None:
        return None
    old = named.name
    place = {"name": old, "line": line, "column": named.column, "end_column": named.column + len(old.encode())}
    if new is None:
        return place
    if not new.isidentifier() or keyword.iskeyword(new) or hasattr(Batch, new):
        raise SettingError(f"{new!r} cannot be the name of a field")
    pattern = re.compile(rf"\b(?:{re.escape(old)}|{re.escape(new)})\b")
    paths = [one for one in checker.paths if pattern.search(checker.text_of(one))]
    types = checker.types_in(paths)
    edits: list[dict[str, Any]] = []
    for one in paths:
        tree = checker.tree_of(one)
        uses = _Uses(one, checker.text_of(one), types)
        if tree is not None:
            uses.read(tree, old)
            _refuse(uses.uncertain, old)
            edits += [{"path": one, **edit, "text": new} for edit in uses.edits]
            taken = _Uses(one, checker.text_of(one), types)
            taken.read(tree, new)
            if taken.edits:
                at = taken.edits[0]["line"]
                raise SettingError(f'a batch has a field "{new}" already: {one}:{at}')
    return {**place, "edits": edits}


def _refuse(uncertain: list[str], old: str) -> None:
    if uncertain:
        shown = ", ".join(uncertain[:5]) + (", ..." if len(uncertain) > 5 else "")
        raise SettingError(f'"{old}" cannot be renamed, as these places may or may not mean the field: {shown}')


@dataclass
class _Uses:
    """Places in a file where a name stands: those that mean a field of a plain batch, and those that may.

    Attributes:
        path: Path of the file.
        text: Its text.
        types: Types of the expressions in it.
    """

    path: str
    text: str
    types: dict[Expression, Type]
    edits: list[dict[str, Any]] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)

    def read(self, tree: MypyFile, name: str) -> None:
        """Look at each place at which a name stands."""
        self._lines = [line.encode() for line in self.text.split("\n")]
        keywords = _keywords(self.text, name)
        known: set[int] = set()
        for node in nodes_in(tree):
            if isinstance(node, MemberExpr) and node.name == name:
                self._member(node, name)
            elif isinstance(node, (IndexExpr, CallExpr, ComparisonExpr)):
                known.update(self._strings(node, name))
            if isinstance(node, CallExpr) and name in node.arg_names:
                self._keyword(node, name, keywords)
            if isinstance(node, ClassDef):
                self._class(node, name)
        for node in nodes_in(tree):
            if isinstance(node, StrExpr) and node.value == name and id(node) not in known:
                self._doubt(node)

    def _class(self, node: ClassDef, name: str) -> None:
        """Note a protocol or record that declares the name, to which a batch may be handed."""
        info = node.info
        is_ours = any(base.fullname.startswith("typedbatch.") for base in info.mro)
        if is_ours and name in info.names:
            self._doubt(node)

    def _member(self, node: MemberExpr, name: str) -> None:
        owner = self._kind(node.expr)
        if owner is None:
            self._doubt(node)
        elif owner and node.end_line is not None and node.end_column is not None:
            self._edit(node.end_line, node.end_column - len(name.encode()), name)

    def _strings(self, node: IndexExpr | CallExpr | ComparisonExpr, name: str) -> Iterator[int]:
        """Yield the strings in a key, an argument of a method, or a test whether a batch has a field."""
        owner: Expression | None
        texts: list[Expression]
        if isinstance(node, IndexExpr):
            owner, texts = node.base, [node.index]
        elif isinstance(node, CallExpr):
            owner, texts = (node.callee.expr, node.args) if isinstance(node.callee, MemberExpr) else (None, [])
        else:
            owner, texts = node.operands[-1], node.operands[:1] if node.operators[-1] in ("in", "not in") else []
        for text in texts:
            if owner is None or not isinstance(text, StrExpr) or text.value != name:
                continue
            is_ours = self._kind(owner)
            if is_ours is None or (not is_ours and _may_become_batch(self.types.get(owner))):
                continue
            if is_ours:
                self._edit(text.line, text.column + 1, name)
            yield id(text)

    def _keyword(self, node: CallExpr, name: str, keywords: dict[tuple[int, int], tuple[int, int]]) -> None:
        value = node.args[node.arg_names.index(name)]
        place = keywords.get((value.line, value.column))
        callee: Any = node.callee
        made = getattr(callee, "fullname", "")
        is_method = isinstance(callee, MemberExpr) and self._kind(callee.expr) is True
        function = getattr(callee, "node", None)
        takes = getattr(function, "arg_names", None)
        if place is not None and (made == BATCH or is_method):
            self._edit(*place, name)
        elif takes is None or name not in takes:
            self._doubt(node)

    def _kind(self, node: Expression) -> bool | None:
        """Return whether an expression is a plain batch; None if it cannot be told."""
        items = [get_proper_type(one) for one in alternatives(self.types.get(node))]
        if not items or any(isinstance(one, AnyType) for one in items):
            return None
        if all(map(is_batch, items)):
            return True
        ours = [one for one in items if isinstance(one, Instance) and one.type.fullname.startswith("typedbatch.")]
        derived = [one for one in items if isinstance(one, Instance) and one.type.has_base(BATCH)]
        return None if ours or derived else False

    def _edit(self, line: int, column: int, name: str) -> None:
        end = column + len(name.encode())
        if self._lines[line - 1][column:end].decode("utf-8", "replace") == name:
            edit = {"line": line, "column": column, "end_line": line, "end_column": end}
            self.edits += [edit] if edit not in self.edits else []
        else:
            self.uncertain.append(f"{self.path}:{line}")

    def _doubt(self, node: Node) -> None:
        place = f"{self.path}:{node.line}"
        self.uncertain += [place] if place not in self.uncertain else []


def _may_become_batch(type_: Type | None) -> bool:
    """Return whether a value with keys may be given to a batch: a dict, and all that is not known."""
    proper = get_proper_type(type_)
    return not isinstance(proper, Instance) or proper.type.fullname in ("builtins.dict", "typing.Mapping")


def _keywords(text: str, name: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the places of keywords with a name, by the places of their values."""
    found = {}
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.keyword) and node.arg == name:
            found[node.value.lineno, node.value.col_offset] = (node.lineno, node.col_offset)
    return found
