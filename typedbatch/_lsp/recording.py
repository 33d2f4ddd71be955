"""Records that are declared from the fields of a plain batch."""

from __future__ import annotations

import ast
import re
from typing import Any

from mypy.nodes import CallExpr, NameExpr

from typedbatch._lsp.checker import Checker
from typedbatch._lsp.fields import described
from typedbatch._lsp.places import Seen, Span
from typedbatch._program.arrays.values import Array, Value
from typedbatch.cli.mypy_run import tree_of
from typedbatch.mypy.batches.content import Content, Field, Ref
from typedbatch.mypy.types.fields import BATCH
from typedbatch.records import BatchRecord
from typedbatch.schema.dtypes import JAXTYPING

_MODULES = {
    "Any": "typing",
    "Batch": "typedbatch",
    "BatchRecord": "typedbatch",
    "NDArray": "numpy.typing",
    "Tensor": "torch",
    "np": "numpy",
}


def record(checker: Checker, path: str, line: int, column: int) -> dict[str, Any] | None:
    """Return the edits that declare the fields of the batch at a place as a record; None if there is none.

    Where a call of ``Batch`` in the file makes the batch, the record is called instead.

    Args:
        checker: The program.
        path: Path of the file.
        line: Line, from 1.
        column: Column in bytes, from 0.
    """
    found = checker.places.at(path, line, column)
    text = checker.text_of(path)
    if found is None or not (found[1].batch and found[1].batch.fields):
        found = _call_around(checker, path, line, column)
    if found is None or found[1].batch is None:
        return None
    span, seen = found
    tree = tree_of(text)
    declared = _declared(tree)
    writer = _Writer({one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} | declared, "jaxtyping" in text)
    name = writer.declare(_name_for(seen, tree, span), seen, seen.value, found[1].batch)
    if not writer.has_fields(name):
        return None
    return {"name": name, "edits": [{**_after_imports(tree, text), "text": writer.source(declared)}, *writer.calls]}


def _call_around(checker: Checker, path: str, line: int, column: int) -> tuple[Span, Seen] | None:
    """Return the innermost call of ``Batch`` around a place."""
    found = [
        (span, seen)
        for span, seen in checker.places.all_in(path)
        if span.covers(line, column) and isinstance(seen.node, CallExpr) and seen.batch is not None
    ]
    return max(found, key=lambda item: item[0][:2], default=None)


def _declared(tree: ast.Module) -> set[str]:
    """Return the names that the top of a file declares or imports."""
    names = set[str]()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
    return names


def _name_for(seen: Seen, tree: ast.Module, span: Span) -> str:
    """Return a name for a class, made of the name that the batch is bound to."""
    name = seen.node.name if isinstance(seen.node, NameExpr) else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value.lineno == span.line and isinstance(node.targets[0], ast.Name):
            name = name or node.targets[0].id
    camel = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return camel if camel not in ("", "Batch", "B") else "Step"


def _after_imports(tree: ast.Module, text: str) -> dict[str, int]:
    """Return the place behind the imports of a file, or at its beginning."""
    last = 0
    for at, node in enumerate(tree.body):
        is_docstring = not at and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            last = node.end_lineno or last
    line = last + 1
    if line > text.count("\n") + 1:
        return {"line": last, "column": -1, "end_line": last, "end_column": -1}
    return {"line": line, "column": 0, "end_line": line, "end_column": 0}


class _Writer:
    """The classes written so far, inner ones first.

    Args:
        taken: Names that have a meaning in the file.
        has_shapes: Whether the file declares shapes.
    """

    def __init__(self, taken: set[str], has_shapes: bool) -> None:
        self._taken = taken
        self._has_shapes = has_shapes
        self._classes: dict[str, list[str]] = {}
        self._used: dict[str, None] = {"BatchRecord": None}
        self.calls: list[dict[str, Any]] = []
        """Edits by which calls of ``Batch`` become calls of the records."""

    def declare(self, name: str, seen: Seen, value: Value, made: Content) -> str:
        """Write the class of a batch, and return its name."""
        number = 2
        free = name
        while free in self._taken:
            free, number = f"{name}{number}", number + 1
        self._taken.add(free)
        lines = [self._line(field, held, seen) for field, held in made.fields.items() if _may_be_declared(field)]
        self._classes[free] = lines
        callee = _callee_of(value)
        if callee is not None and len(lines) == len(made.fields):
            self.calls.append({**callee._asdict(), "text": free})
        return free

    def has_fields(self, name: str) -> bool:
        """Return whether a class declares anything."""
        return bool(self._classes[name])

    def source(self, declared: set[str]) -> str:
        """Return the imports that a file lacks, and the classes."""
        modules: dict[str, list[str]] = {}
        for name in self._used:
            if name not in declared:
                modules.setdefault(_MODULES.get(name, "jaxtyping"), []).append(name)
        imports = [
            f"import {module} as np" if module == "numpy" else f"from {module} import {', '.join(sorted(names))}"
            for module, names in modules.items()
        ]
        classes = [f"class {name}(BatchRecord):\n" + "\n".join(lines) for name, lines in self._classes.items()]
        return "\n".join(imports) + "\n" * bool(imports) + "\n\n" + "\n\n\n".join(classes) + "\n"

    def _line(self, name: str, held: Field, seen: Seen) -> str:
        inner = seen.inner(held.value)
        if inner is not None:
            words = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
            hint = self.declare(words, seen, held.value, inner) if inner.fields else self._use("Batch")
        else:
            hint = self._hint(held.value)
        return f"    {name}: {hint}" + ("" if held.sure else " | None = None")

    def _hint(self, value: Any) -> str:
        if not isinstance(value, Array):
            return self._use("Any")
        dtype = next(iter(value.dtypes)) if value.dtypes is not None and len(value.dtypes) == 1 else ""
        if value.axes is not None and self._has_shapes:
            sizes = " ".join(_size(str(axis)) for axis in value.axes)
            kind = self._use(JAXTYPING.get(dtype, _family(value)))
            array = self._use("Tensor") if value.torch else self._use("np") + ".ndarray"
            return f'{kind}[{array}, "{sizes}"]'
        if value.torch:
            return self._use("Tensor")
        item = f"{self._use('np')}.{dtype}" if dtype else self._use("Any")
        return f"{self._use('NDArray')}[{item}]"

    def _use(self, name: str) -> str:
        self._used[name] = None
        return name


def _callee_of(value: Value) -> Span | None:
    """Return the place of ``Batch`` in the call that makes a batch; None if the call may not be one of a record."""
    site = next(iter(value.objects))[0] if isinstance(value, Ref) and len(value.objects) == 1 else None
    while isinstance(site, tuple):
        site = site[0] if len(site) == 1 else None
    if not isinstance(site, CallExpr) or not isinstance(site.callee, NameExpr) or site.callee.fullname != BATCH:
        return None
    callee = site.callee
    if None in site.arg_names or callee.end_line is None or callee.end_column is None:
        return None
    return Span(callee.line, callee.column, callee.end_line, callee.end_column)


def _family(value: Array) -> str:
    text = described(value, None)
    return "Float" if "floats" in text else "Int" if "integers" in text else "Shaped"


def _size(text: str) -> str:
    return text if re.fullmatch(r"\w+|[\w+*-]+", text) and text != "?" else "_"


def _may_be_declared(name: str) -> bool:
    return name.isidentifier() and name[:2] != "__" and (name == "values" or not hasattr(BatchRecord, name))
