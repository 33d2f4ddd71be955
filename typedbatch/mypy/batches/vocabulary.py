"""Names that fields may get in the text of one file, and what else decides whether all of them are in sight."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LONGEST = 400_000
"""Longer files are not looked at."""

_LIBRARIES = (
    sys.stdlib_module_names - {"csv", "configparser", "marshal", "pickle", "plistlib", "shelve", "sqlite3", "tomllib"}
) | {
    "annotated_types", "beartype", "einops", "jaxtyping", "matplotlib", "numba", "numpy", "psutil", "rich", "scipy",
    "tensorboard", "torch", "tqdm", "typing_extensions", "wandb",
}  # fmt: skip
"""Modules that make no batches, and no dicts that become batches."""

_READERS = frozenset({
    "eval", "exec", "from_hdf5", "genfromtxt", "globals", "infer_schema", "literal_eval", "load", "loads", "locals",
    "read_csv", "recfromcsv", "rename", "safe_load", "vars", "__dict__", "__import__", "import_module", "SampleBatch",
    "MultiAgentBatch",
})  # fmt: skip
"""Names of what brings fields into a program whose names are not in its text."""

_OWN = "typedbatch"
_MODULES = frozenset({"buffers", "conversion", "distributions", "errors", "ragged", "rows", "rules", "sequences", "training"})
"""Modules of this package that give fields only the names in ``_FIELDS``."""

_FIELDS = frozenset({
    "act", "adv", "cell", "dist", "env_id", "fractions", "hidden", "imitation_logits", "info", "log_prob", "logits",
    "logp_old", "obs", "obs_next", "policy", "q_value", "quantiles_tau", "returns", "rew", "state", "t", "taus",
    "terminated", "truncated", "v_s", "values", "weight",
})  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """The names of a file.

    Attributes:
        names: what fields may be called: keywords, attributes that are set, texts, names that classes declare.
        parts: texts of which names are put together, as ``"_mean"`` of ``f"{name}_mean"``.
        imports: modules that are imported, each with the number of leading dots.
        opens: whether fields may get names that are not in the text.
        is_run: whether the file is run, and not only imported.
    """

    names: frozenset[str]
    parts: frozenset[str]
    imports: frozenset[tuple[str, int]]
    opens: bool
    is_run: bool

    def may_make(self, name: str) -> bool:
        """Return whether a field may get a name."""
        return name in self.names or len(name) == 1 or any(part in name for part in self.parts)


@lru_cache(maxsize=256)
def vocabulary_of(text: str) -> Vocabulary | None:
    """Return the names of a file; None if it cannot be read."""
    try:
        tree = ast.parse(text) if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if tree is None:
        return None
    read = {id(node) for node in ast.walk(tree) for node in _not_names(node)}
    names, parts = set(_FIELDS), set()
    for node in ast.walk(tree):
        names.update(_names(node, read))
        parts.update(_parts(node))
    return Vocabulary(
        frozenset(names | {name.lower() for name in names}),
        frozenset(part for part in parts if part.isidentifier() or part.strip("0123456789").isidentifier()),
        frozenset(_imports(tree)),
        any(map(_opens, ast.walk(tree))),
        any(map(_is_run, tree.body)),
    )


def is_of_library(module: str) -> bool:
    """Return whether a module that is not of the program gives batches no fields of other names."""
    top, *rest = module.split(".")
    return top in _LIBRARIES or (top == _OWN and (not rest or rest[0] in _MODULES))


def _not_names(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the texts that name no field: docstrings, and keys that are read."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.slice
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        yield node.target  # It reads the field first.
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        yield node.target.slice


def _names(node: ast.AST, read: set[int]) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg
    elif isinstance(node, ast.Attribute):
        if isinstance(node.ctx, ast.Store) and id(node) not in read:
            yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if id(node) not in read:
            yield node.value.strip("-").replace("-", "_")
    elif isinstance(node, ast.Call) and _last_name(node.func) in _SPLITTING:
        for text in (getattr(node.func, "value", None), *node.args):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield from text.value.replace(",", " ").split()
    elif isinstance(node, ast.ClassDef):
        for statement in node.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
            if isinstance(statement, ast.FunctionDef):
                yield statement.name  # It may be a property of a protocol.


_SPLITTING = frozenset({"Enum", "make_dataclass", "namedtuple", "split"})


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _parts(node: ast.AST) -> Iterator[str]:
    """Yield the texts that are part of others."""
    inner: list[ast.AST] = []
    if isinstance(node, ast.JoinedStr):
        inner = list(node.values)
        if any(isinstance(one, ast.Constant) and not str(one.value).isidentifier() for one in inner):
            return  # It is no name: it has spaces, or punctuation.
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        inner = [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inner = [node.func.value, *node.args] if node.func.attr in _TEXT_METHODS else []
    for one in inner:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield from one.value.replace("%s", " ").replace("{}", " ").split()


_TEXT_METHODS = frozenset({"format", "join", "replace", "removeprefix", "removesuffix"})


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield module, node.level
            dot = "." if module else ""
            yield from ((f"{module}{dot}{alias.name}?", node.level) for alias in node.names)


def _opens(node: ast.AST) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _last_name(node) in _READERS
    return isinstance(node, ast.ImportFrom) and any(alias.name in _READERS or alias.name == "*" for alias in node.names)


def _is_run(statement: ast.stmt) -> bool:
    """Return whether a statement at the top of a file says that the file is run."""
    if isinstance(statement, ast.If):
        return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))
    if isinstance(statement, (ast.For, ast.While)):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
