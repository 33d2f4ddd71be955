"""Names that the text of a file may give to fields, and whether all of them are in sight."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

_PLAIN: Final = frozenset({
    "annotated_types", "beartype", "einops", "hypothesis", "jaxtyping", "matplotlib", "numba", "numpy", "psutil",
    "pytest", "rich", "scipy", "tensorboard", "torch", "tqdm", "typing_extensions", "wandb",
}) | sys.stdlib_module_names - {
    "configparser", "csv", "marshal", "pickle", "plistlib", "shelve", "sqlite3", "tomllib",
}  # fmt: skip
"""Modules that make no batches, and no dicts that become batches."""
_OWN: Final = "typedbatch"
_OPEN_ROOMS: Final = ("audit", "bridges", "files", "json_schema", "naming", "sample_batches", "schema", "testing")
"""Modules of this package that bring batches from elsewhere, or rename fields."""
_ADDED: Final = {
    "buffers": ("is_first", "is_pad", "mask", "weight"),
    "posttraining": (
        "advantages", "attention_mask", "chosen_ids", "chosen_mask", "cu_seqlens", "input_ids", "is_weights",
        "loss_mask", "old_logp", "policy_step", "position_ids", "prompt_ids", "prompt_mask", "ref_chosen_logp",
        "ref_logp", "ref_rejected_logp", "rejected_ids", "rejected_mask", "response_ids", "response_length",
        "response_mask", "returns", "rewards", "rollout_logp", "teacher_ids", "teacher_logp", "tokens", "truncated",
        "uid", "values",
    ),
    "training": (
        "act", "adv", "agent_mask", "dist", "ended", "env_id", "info", "logits", "logp_old", "obs", "obs_next",
        "policy", "returns", "rew", "state", "t", "terminated", "truncated", "v_s", "weight",
    ),
}  # fmt: skip
"""Modules of this package, each with the fields that it adds to batches by itself."""
_READERS: Final = frozenset({
    "MultiAgentBatch", "SampleBatch", "__annotations__", "__dict__", "__import__", "__slots__", "_fields", "argv",
    "dir", "environ", "eval", "exec", "from_hdf5", "genfromtxt", "get_type_hints", "globals", "groupdict",
    "import_module", "infer_schema", "iterdir", "listdir", "literal_eval", "load", "loadmat", "loads", "locals",
    "named_buffers", "named_children", "named_modules", "named_parameters", "read", "read_csv", "read_text", "readline",
    "readlines", "recfromcsv", "rename", "safe_load", "signature", "stdin", "stem", "vars",
})  # fmt: skip
"""Names of what brings fields into a program whose names are not in its text."""
_CUTTING: Final = frozenset({
    "__name__", "__qualname__", "capitalize", "endswith", "lstrip", "partition", "removeprefix", "removesuffix",
    "rpartition", "rsplit", "rstrip", "startswith", "strip", "sub", "swapcase", "title", "translate", "upper",
})  # fmt: skip
"""Attributes of texts and functions that make names of others."""
_JOINING: Final = ("format", "join", "replace")
"""Methods of texts that put names together."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_LONGEST_ANNOTATION: Final = 80
"""Longer texts cannot be annotations."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""Nodes in which a ``yield`` belongs to them, and not to a function around."""


@dataclass
class Vocabulary:
    """Names in the texts of files.

    Attributes:
        names: Names that fields may get.
        pieces: Texts of which names are put together, as ``"_mean"`` of ``f"{name}_mean"``.
        batch_fields: Keywords of calls of ``Batch``.
        late: Attributes that are set elsewhere than in ``__init__``.
        imports: Full names that are imported, which may be modules or members of them.
        is_open: Whether fields may get names that are not in the text.
        is_run: Whether a file is run, and not only imported.
        generators: Functions that yield.
        uses: Names that each statement at the top of a file reads, and full names that it imports.
    """

    names: set[str] = field(default_factory=set[str])
    pieces: set[str] = field(default_factory=set[str])
    batch_fields: set[str] = field(default_factory=set[str])
    late: set[str] = field(default_factory=set[str])
    imports: set[str] = field(default_factory=set[str])
    is_open: bool = False
    is_run: bool = False
    generators: set[ast.AST] = field(default_factory=set[ast.AST])
    uses: list[tuple[set[str], set[str]]] = field(default_factory=list[tuple[set[str], set[str]]])

    def add(self, other: Vocabulary) -> None:
        """Add the names of another file, but for what is looked up file by file: imports, generators and uses."""
        self.names |= other.names
        self.pieces |= other.pieces
        self.batch_fields |= other.batch_fields
        self.late |= other.late
        self.is_open |= other.is_open
        self.is_run |= other.is_run

    def may_make(self, name: str) -> bool:
        """Return whether the texts may give a field a name, if they are not open."""
        return name in self.names or any(piece in name for piece in self.pieces)


def vocabulary_of(tree: ast.Module, package: str) -> Vocabulary:
    """Return the names of a file of a package."""
    return _Reader(package).read(tree)


class _Reader:
    """Reader of the names of a file, which goes through its tree once."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._found = Vocabulary()
        self._skipped: set[ast.AST] = set()
        """Texts that name no field that is made: docstrings, those printed, and fields that are read."""
        self._functions: set[str] = set()
        self._readers: list[ast.expr] = []
        self._is_in_init = False
        self._uses = set[str](), set[str]()
        self._around: ast.AST | None = None
        """The function or class that is being read."""
        self._kinds: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.AnnAssign: lambda node: self._assigned([node.target]),
            ast.Assign: lambda node: self._assigned(node.targets),
            ast.AsyncFunctionDef: self._function,
            ast.Attribute: self._attribute,
            ast.AugAssign: lambda node: self._skipped.update((node.target, getattr(node.target, "slice", node.target))),
            ast.BinOp: self._sum,
            ast.Call: self._call,
            ast.ClassDef: lambda node: self._found.names.add(node.name),
            ast.Constant: self._constant,
            ast.Dict: lambda node: self._keys(node.keys),
            ast.DictComp: lambda node: self._keys([node.key]),
            ast.Expr: self._expression,
            ast.FunctionDef: self._function,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.JoinedStr: self._joined,
            ast.Name: self._name,
            ast.Subscript: self._subscript,
            ast.arg: lambda node: self._found.names.add(node.arg),
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
            ast.keyword: lambda node: self._found.names.update([node.arg] if node.arg else ()),
        }

    def read(self, tree: ast.Module) -> Vocabulary:
        """Return the names of a tree."""
        for statement in tree.body:
            self._uses = set[str](), set[str]()
            self._go_through(statement)
            self._found.uses.append(self._uses)
        found = self._found
        found.is_run |= any(map(_is_of_script, tree.body))
        for name in found.imports:
            found.names.update(_ADDED.get(name.removeprefix(f"{_OWN}.").partition(".")[0], ()))
            found.is_open |= name.rpartition(".")[2] in _READERS or name.endswith("*")
        found.is_open |= not all(map(self._is_own, self._readers))
        return found

    def _go_through(self, statement: ast.stmt) -> None:
        todo: list[tuple[ast.AST, ast.AST | None, bool]] = [(statement, None, False)]
        while todo:
            node, self._around, self._is_in_init = todo.pop()
            kind = self._kinds.get(type(node))
            if kind is not None:
                kind(node)
            around = node if isinstance(node, _SCOPES) else self._around
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    todo += [(one, around, self._is_in_init) for one in value if isinstance(one, ast.AST)]
                elif isinstance(value, ast.AST) and name != "ctx":
                    todo.append((value, around, self._is_in_init))

    def _is_own(self, node: ast.expr) -> bool:
        """Return whether a node is a function or method of the file."""
        is_local = isinstance(node, ast.Name) or getattr(getattr(node, "value", None), "id", "") == "self"
        return is_local and last_name(node) in self._functions

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._is_in_init = self._is_in_init or node.name == "__init__"
        self._functions.add(node.name)
        self._found.names.add(node.name)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        if self._around is not None:
            self._found.generators.add(self._around)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = imported_names(node, self._package)
        self._found.imports.update(names)
        self._uses[1].update(names)

    def _name(self, node: ast.Name) -> None:
        self._uses[0].add(node.id)
        if node.id in _READERS:
            self._readers.append(node)

    def _assigned(self, targets: list[ast.expr]) -> None:
        self._found.names.update(one.id for one in targets if isinstance(one, ast.Name))

    def _attribute(self, node: ast.Attribute) -> None:
        self._found.is_open |= node.attr in _CUTTING
        if node.attr in _READERS:
            self._readers.append(node)
        if not isinstance(node.ctx, ast.Load) and node not in self._skipped:
            self._found.names.add(node.attr)
        if isinstance(node.ctx, ast.Store) and not self._is_in_init:
            self._found.late.add(node.attr)

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value) < _LONGEST_ANNOTATION:
            self._uses[0].update(_WORD.findall(node.value))
        if isinstance(node.value, str) and node not in self._skipped:
            for word in node.value.replace(",", " ").split():
                name = word.strip("-").replace("-", "_")
                self._found.names.update((name, name.lower()))
                if word.startswith("--"):  # A parser of options sets it.
                    self._found.late.add(name)

    def _expression(self, node: ast.Expr) -> None:
        self._skipped.add(node.value)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == "print":
            self._skipped.update(node.value.args)

    def _subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load):
            self._skipped.add(node.slice)
        elif isinstance(node.slice, ast.BinOp) and isinstance(node.slice.left, ast.Name):
            self._keys([node.slice] if isinstance(node.slice.right, ast.Name) else [])

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if last_name(function) == "Batch":
            self._found.batch_fields.update(one.arg for one in node.keywords if one.arg)
        elif last_name(function) == "setattr":
            self._keys(node.args[1:2])
            self._found.late.update(map(_text, node.args[1:2]))
        elif isinstance(function, ast.Attribute):
            text, is_constant = function.value, isinstance(function.value, ast.Constant)
            if function.attr in _JOINING:
                self._pieces([text, *node.args])
                self._found.is_open |= function.attr == "join" and is_constant and not _text(text)
            elif function.attr == "split" and not is_constant:
                self._found.is_open |= not (node.args or node.keywords) or any(map(_text, node.args))

    def _sum(self, node: ast.BinOp) -> None:
        if isinstance(node.op, (ast.Add, ast.Mod)):
            self._pieces([node.left, node.right])

    def _joined(self, node: ast.JoinedStr) -> None:
        if all(map(_is_piece, map(_text, node.values))):  # A text with spaces or punctuation is not a name.
            self._pieces(node.values)
        self._found.is_open |= len(node.values) > 1 and not any(isinstance(one, ast.Constant) for one in node.values)

    def _keys(self, keys: Iterable[ast.expr | None]) -> None:
        """Take note of keys that are made of others, of which no part is written out."""
        for key in keys:
            parts = [key.left, key.right] if isinstance(key, ast.BinOp) else []
            self._found.is_open |= isinstance(key, (ast.BinOp, ast.Subscript)) and not any(map(_text, parts))

    def _pieces(self, parts: Iterable[ast.expr]) -> None:
        for one in parts:
            if text := _text(one):
                self._found.pieces.update(filter(_is_piece, text.replace("%s", " ").replace("{}", " ").split()))


def _is_of_script(node: ast.stmt) -> bool:
    """Return whether a statement at the top of a file says that it is run, and not only imported."""
    match node:
        case ast.If(test=test):
            return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case _:
            return isinstance(node, (ast.For, ast.While))


def _is_piece(text: str) -> bool:
    return f"_{text}".isidentifier()


def is_plain(name: str) -> bool:
    """Return whether what is imported from outside of a program gives batches no fields of unknown names."""
    top, *rest = name.split(".")
    return top in _PLAIN or (top == _OWN and not (rest and rest[0] in _OPEN_ROOMS))


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Return the full names that a statement imports, each with ``*`` for everything of a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = absolute(node.module or "", node.level, package)
    return [f"{base}.{alias.name}" if base else alias.name for alias in node.names]


def absolute(module: str, dots: int, package: str) -> str:
    """Return the full name of a module that a file of a package imports with a number of dots."""
    if not dots:
        return module
    parts = package.split(".") if package else []
    return ".".join([*parts[: len(parts) - dots + 1], *([module] if module else [])])


def last_name(node: ast.expr) -> str:
    """Return the name of a variable or attribute, without what stands before its last dot; else an empty string."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
