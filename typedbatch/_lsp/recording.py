"""Records that are declared from the fields of a plain batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from typedbatch._lsp.fields import described
from typedbatch._lsp.places import Field, Node, Seen, Site, Span, site_of, span_of
from typedbatch._lsp.runs import Runs
from typedbatch._program.arrays.values import Array
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


def record(runs: Runs, path: str, line: int, column: int) -> dict[str, Any] | None:
    """Return the edits that declare the fields of the batch at a place as a record; None if there is none.

    Where a call of ``Batch`` in the file makes the batch, the record is called instead.
    """
    places = runs.places_in(path, line)
    found = places.at(line, column)
    if found is None or not found[2].fields:
        found = next((one for one in reversed(list(places.all())) if _is_call_around(one, line, column)), None)
    text, tree = runs.text_of(path), places.tree
    if text is None or found is None or found[2].fields is None or found[2].is_declared:
        return None
    span, node, seen = found
    declared = _declared(tree)
    calls = dict(_calls_of_batch(str(runs.path_of(path)), tree))
    taken = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} | declared
    writer = _Writer(taken, calls, has_shapes="jaxtyping" in text)
    name = writer.declare(_name_for(node, tree, span), seen)
    if not writer.has_fields(name):
        return None
    return {"name": name, "edits": [{**_after_imports(tree, text), "text": writer.source(declared)}, *writer.calls]}


def _is_call_around(found: tuple[Span, Node, Seen], line: int, column: int) -> bool:
    span, node, seen = found
    return span.covers(line, column) and isinstance(node, ast.Call) and seen.fields is not None


def _calls_of_batch(path: str, tree: ast.Module) -> Iterator[tuple[Site, ast.Call]]:
    """Yield the calls in a file by the name ``Batch``, without ``*`` and ``**``, which may be calls of a record."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Batch"), args=[]) if all(one.arg is not None for one in node.keywords):
                yield site_of(path, node), node
            case _:
                pass


def _declared(tree: ast.Module) -> set[str]:
    """Return the names that the top of a file declares or imports."""
    names = set[str]()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
    return names


def _name_for(node: Node, tree: ast.Module, span: Span) -> str:
    """Return a name for a class, made of the name that the batch is bound to."""
    name = node.id if isinstance(node, ast.Name) else ""
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and one.value.lineno == span.line and isinstance(one.targets[0], ast.Name):
            name = name or one.targets[0].id
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
        calls: Calls of ``Batch`` in the file.
        has_shapes: Whether the file declares shapes.

    Attributes:
        calls: Edits by which calls of ``Batch`` become calls of the records.
    """

    def __init__(self, taken: set[str], calls: Mapping[Site, ast.Call], *, has_shapes: bool) -> None:
        self.calls: list[dict[str, Any]] = []
        self._taken = taken
        self._calls_of_batch = calls
        self._has_shapes = has_shapes
        self._classes: dict[str, list[str]] = {}
        self._used: dict[str, None] = {"BatchRecord": None}

    def declare(self, name: str, seen: Seen) -> str:
        """Write the class of a batch, and return its name."""
        number = 2
        free = name
        while free in self._taken:
            free, number = f"{name}{number}", number + 1
        self._taken.add(free)
        fields = {field: one for field, one in (seen.fields or {}).items() if _may_be_declared(field)}
        self._classes[free] = [self._line(field, one) for field, one in fields.items()]
        call = self._calls_of_batch.get(next(iter(seen.sites))) if len(seen.sites) == 1 else None
        given = {one.arg for one in call.keywords} if call is not None else set()
        needed = {field for field, one in fields.items() if one.is_sure}
        if call is not None and needed <= given <= fields.keys():
            self.calls.append({**span_of(call.func)._asdict(), "text": free})
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

    def _line(self, name: str, field: Field) -> str:
        inner = field.value.fields
        if inner is not None:
            words = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
            hint = self.declare(words, field.value) if inner else self._use("Batch")
        else:
            hint = self._hint(field.value.array)
        return f"    {name}: {hint}" + ("" if field.is_sure else " | None = None")

    def _hint(self, array: Array | None) -> str:
        if array is None:
            return self._use("Any")
        dtype = next(iter(array.dtypes)) if array.dtypes is not None and len(array.dtypes) == 1 else ""
        if array.axes is not None and self._has_shapes:
            sizes = " ".join(_size(str(axis)) for axis in array.axes)
            kind = self._use(JAXTYPING.get(dtype, _family(array)))
            library = self._use("Tensor") if array.torch else self._use("np") + ".ndarray"
            return f'{kind}[{library}, "{sizes}"]'
        if array.torch:
            return self._use("Tensor")
        item = f"{self._use('np')}.{dtype}" if dtype else self._use("Any")
        return f"{self._use('NDArray')}[{item}]"

    def _use(self, name: str) -> str:
        self._used[name] = None
        return name


def _family(array: Array) -> str:
    text = described(Seen(array=array))
    return "Float" if "floats" in text else "Int" if "integers" in text else "Shaped"


def _size(text: str) -> str:
    return text if re.fullmatch(r"\w+|[\w+*-]+", text) and text != "?" else "_"


def _may_be_declared(name: str) -> bool:
    return name.isidentifier() and name[:2] != "__" and (name == "values" or not hasattr(BatchRecord, name))
