"""Places in a file where a name stands: those that mean a field of a plain batch, and those that may."""

from __future__ import annotations

import ast
from typing import Any

from typedbatch._lsp.places import BATCH, DECLARED, LIBRARY, UNKNOWN, Places


class Uses:
    """Uses of a name in a file.

    Args:
        path: Path of the file.
        text: Its text.
        places: What was seen in it, and its syntax.
        name: The name.

    Attributes:
        edits: Places that mean a field of a plain batch.
        uncertain: Places that may or may not mean it.
    """

    def __init__(self, path: str, text: str, places: Places, name: str) -> None:
        self.edits: list[dict[str, Any]] = []
        self.uncertain: list[str] = []
        self._path = path
        self._places = places
        self._name = name
        self._lines = [line.encode("utf-8", "replace") for line in text.split("\n")]
        self._known: set[ast.AST] = set()
        nodes = [*ast.walk(places.tree)]
        for node in nodes:
            self._read(node)
        for node in nodes:
            if isinstance(node, ast.Constant) and node.value == name and node not in self._known:
                self._doubt(node)

    def _read(self, node: ast.AST) -> None:
        name = self._name
        match node:
            case ast.Attribute(value=owner, attr=attr) if attr == name:
                self._decide(self._is_batch(owner), node, (node.end_col_offset or 0) - len(name.encode()))
            case ast.Subscript(value=owner, slice=key):
                self._text(key, owner)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[owner]):
                self._text(left, owner)
            case ast.Call():
                self._call(node)
            case ast.ClassDef():
                self._class(node)
            case _:
                pass

    def _text(self, node: ast.expr, owner: ast.expr) -> None:
        """Look at a text that is a key, an argument of a method, or what a test asks for."""
        if not isinstance(node, ast.Constant) or node.value != self._name:
            return
        seen = self._places.seen.get(owner)
        is_batch = self._is_batch(owner)
        if is_batch is not None and (is_batch or (seen is not None and seen.kind not in ("", "dict", "list"))):
            self._known.add(node)
            self._decide(is_batch, node, node.col_offset + 1)

    def _call(self, node: ast.Call) -> None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        for argument in node.args if owner is not None else ():
            self._text(argument, owner or argument)
        for one in node.keywords:
            if one.arg != self._name:
                continue
            function = self._places.seen.get(node.func, UNKNOWN)
            if (owner is not None and self._is_batch(owner)) or function.kind == BATCH:
                self._edit(one.lineno, one.col_offset)
            elif function.kind != LIBRARY and self._name not in (function.parameters or ()):
                self._doubt(node)

    def _class(self, node: ast.ClassDef) -> None:
        """Doubt a protocol or record that declares the name, to which a batch may be handed."""
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        if not any(self._places.seen.get(base, UNKNOWN).kind in (DECLARED, UNKNOWN.kind) for base in bases):
            return
        for statement in node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name) if name == self._name:
                    self._doubt(node)
                case _:
                    pass

    def _is_batch(self, node: ast.expr) -> bool | None:
        """Return whether an expression is a plain batch; None if it cannot be told."""
        seen = self._places.seen.get(node)
        if seen is None or seen.is_unknown or seen.is_declared:
            return None
        return seen.fields is not None

    def _decide(self, is_batch: bool | None, node: ast.expr, column: int) -> None:
        if is_batch is None:
            self._doubt(node)
        elif is_batch:
            self._edit(node.end_lineno or node.lineno, column)

    def _edit(self, line: int, column: int) -> None:
        end = column + len(self._name.encode())
        if self._lines[line - 1][column:end].decode("utf-8", "replace") == self._name:
            edit = {"line": line, "column": column, "end_line": line, "end_column": end}
            self.edits += [edit] if edit not in self.edits else []
        else:
            self.uncertain.append(f"{self._path}:{line}")

    def _doubt(self, node: ast.expr | ast.ClassDef) -> None:
        place = f"{self._path}:{node.lineno}"
        self.uncertain += [place] if place not in self.uncertain else []
