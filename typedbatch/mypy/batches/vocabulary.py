"""Names that fields may get in the text of one file, function by function, and whether all of them are in sight."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

_LONGEST = 400_000
"""Longer files are not looked at."""

_OF_ARRAYS = frozenset({
    "annotated_types", "beartype", "einops", "jaxtyping", "matplotlib", "numba", "numpy", "psutil", "rich", "scipy",
    "tensorboard", "torch", "tqdm", "typing_extensions", "wandb",
})  # fmt: skip
_LIBRARIES = (
    _OF_ARRAYS
    | {"hypothesis", "pytest"}
    | (
        sys.stdlib_module_names
        - {"csv", "configparser", "marshal", "pickle", "plistlib", "shelve", "sqlite3", "tomllib"}
    )
)
"""Modules that make no batches, and no dicts that become batches."""
_OWN = "typedbatch"
_ADDED = {
    "buffers": ("weight",),
    "conversion": (),
    "distributions": (),
    "episodes": (),
    "errors": (),
    "posttraining": (
        "advantages", "attention_mask", "chosen_ids", "chosen_mask", "cu_seqlens", "input_ids", "is_weights",
        "loss_mask", "old_logp", "policy_step", "position_ids", "prompt_ids", "prompt_mask", "ref_chosen_logp",
        "ref_logp", "ref_rejected_logp", "rejected_ids", "rejected_mask", "response_ids", "response_length",
        "response_mask", "returns", "rewards", "rollout_logp", "teacher_ids", "teacher_logp", "tokens", "truncated",
        "uid", "values",
    ),
    "ragged": (),
    "rows": (),
    "rules": (),
    "sequences": (),
    "training": (
        "act", "adv", "dist", "env_id", "info", "logits", "logp_old", "obs", "obs_next", "policy", "returns", "rew",
        "state", "t", "terminated", "truncated", "v_s", "weight",
    ),
}  # fmt: skip
"""Modules of this package, each with the fields that it adds to batches by itself. Others may add any field."""

_READERS = frozenset({
    "MultiAgentBatch", "SampleBatch", "__annotations__", "__dict__", "__import__", "__slots__", "_fields", "argv",
    "dir", "environ", "eval", "exec", "from_hdf5", "genfromtxt", "get_type_hints", "globals", "groupdict",
    "import_module", "infer_schema", "iterdir", "listdir", "literal_eval", "load", "loadmat", "loads", "locals",
    "named_buffers", "named_children", "named_modules", "named_parameters", "read", "read_csv", "read_text", "readline",
    "readlines", "recfromcsv", "rename", "safe_load", "signature", "stdin", "stem", "vars",
})  # fmt: skip
"""Names of what brings fields into a program whose names are not in its text."""
_CUTTING = frozenset({
    "capitalize", "endswith", "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip",
    "startswith", "strip", "sub", "swapcase", "title", "translate", "upper",
})  # fmt: skip
"""Methods of texts that make other names of names."""
_OPENING = frozenset({*(f"{name}?" for name in _READERS), "*?"})
"""The same names as imports; a name with ``?`` may be a module, or an attribute of one."""
_SPLITTING = frozenset({"Enum", "make_dataclass", "namedtuple", "split"})
_JOINING = frozenset({"format", "join", "replace"})
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol", "Module", "Enum", "Exception", "Thread", "Dataset"})
"""Base classes that are not batches, so that ``self.x = ...`` in a derived class sets no field."""
_UNCALLED_BASES = frozenset({"object", "ABC", "Generic", "Protocol", "Module"})
"""Classes that do not call methods of derived classes, but for ``forward`` and those with two underscores."""


@dataclass(frozen=True)
class Part:
    """A function, without the functions in it, or what is at the top of a file.

    Attributes:
        name: name of the function; empty for the top of a file.
        makes: names that fields may get in it.
        pieces: texts of which it puts names together, as ``"_mean"`` of ``f"{name}_mean"``.
        uses: all names that it reads, those of functions among them.
        is_called: whether others may call it, even if its name is read nowhere.
    """

    name: str
    makes: frozenset[str]
    pieces: frozenset[str]
    uses: frozenset[str]
    is_called: bool

    def may_make(self, name: str) -> bool:
        """Return whether a field may get a name here."""
        return name in self.makes or any(piece in name for piece in self.pieces)


@dataclass(frozen=True)
class Vocabulary:
    """The names of a file.

    Attributes:
        parts: the functions of the file, and its top.
        imports: modules that are imported, each with the number of leading dots.
        opens: whether fields may get names that are not in the text.
    """

    parts: tuple[Part, ...]
    imports: frozenset[tuple[str, int]]
    opens: bool


@lru_cache(maxsize=256)
def vocabulary_of(text: str) -> Vocabulary | None:
    """Return the names of a file; None if it cannot be read."""
    try:
        tree = ast.parse(text) if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if tree is None:
        return None
    reader = _Reader(tree)
    return Vocabulary(tuple(reader.parts()), frozenset(reader.imports), reader.opens)


def is_of_library(module: str) -> bool:
    """Return whether a module that is not of the program gives batches no fields of unknown names."""
    top, *rest = module.split(".")
    return top in _LIBRARIES or (top == _OWN and (not rest or rest[0] in _ADDED))


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Reader:
    """Reader of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._plain = {*dir(builtins)} - {"dict"}
        self._classes: dict[str, ast.ClassDef] = {}
        self._functions: list[tuple[_Function, ast.ClassDef | None]] = []
        self.imports: set[tuple[str, int]] = set()
        self.opens = False
        """Whether fields may get names that are not in the text."""
        readers: list[ast.Name | ast.Attribute] = []
        todo: list[tuple[ast.AST, ast.ClassDef | None]] = [(tree, None)]
        while todo:
            node, owner = todo.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._functions.append((node, owner))
            elif isinstance(node, ast.ClassDef):
                self._classes[node.name] = owner = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._plain.update(_plain_names(node))
                self.imports.update(_imports(node))
            elif isinstance(node, (ast.Name, ast.Attribute)) and _last_name(node) in _READERS:
                readers.append(node)
            self.opens = self.opens or _makes_names(node)
            todo += [(child, owner) for child in ast.iter_child_nodes(node)]
        names = {function.name for function, _ in self._functions}
        self.opens |= any(module.rpartition(".")[2] in _OPENING for module, _ in self.imports)
        self.opens |= not all(_is_own(node, names) for node in readers)
        self._named = names - {one.name for one, _ in self._functions if one.args.kwarg is not None}
        """Functions of the file that take no ``**``, so that their keywords never become fields."""

    def parts(self) -> Iterator[Part]:
        """Yield the parts of the file."""
        added = {name for module, _ in self.imports for name in _ADDED.get(_second(module), ())}
        yield self._part("", self._tree.body, None, is_called=True, more=added)
        for function, owner in self._functions:
            yield self._part(function.name, function.body, owner, is_called=self._is_called(function, owner))

    def _is_called(self, function: _Function, owner: ast.ClassDef | None) -> bool:
        if function.decorator_list or function.name.startswith(("__", "test")):
            return True
        return owner is not None and (function.name == "forward" or not self._is_derived_of(owner, _UNCALLED_BASES))

    def _is_derived_of(self, owner: ast.ClassDef, plain: frozenset[str], depth: int = 9) -> bool:
        """Return whether all bases of a class are some that are known, or classes of the file of which that is true."""
        for base in owner.bases:
            name = _last_name(base.value if isinstance(base, ast.Subscript) else base)
            known = self._classes.get(name)
            if name not in plain and (known is None or not depth or not self._is_derived_of(known, plain, depth - 1)):
                return False
        return True

    def _part(
        self, name: str, body: list[ast.stmt], owner: ast.ClassDef | None, *, is_called: bool, more: Iterable[str] = ()
    ) -> Part:
        makes, pieces, uses = set(more), set[str](), set[str]()
        nodes = list(_inside(body))
        skipped = {id(one) for node in nodes for one in _not_names(node)}
        is_plain = owner is not None and self._is_derived_of(owner, _PLAIN_BASES)
        for node in nodes:
            makes.update(self._names(node, skipped, is_plain=is_plain))
            pieces.update(_pieces(node))
            uses.update(_uses(node))
        pieces = {piece for piece in pieces if f"_{piece}".isidentifier()}
        makes |= {one.lower() for one in makes}
        return Part(name, frozenset(makes), frozenset(pieces), frozenset(uses), is_called)

    def _names(self, node: ast.AST, skipped: set[int], *, is_plain: bool) -> Iterator[str]:
        if isinstance(node, ast.Call):
            if not self._is_plain_call(node.func):
                yield from (keyword.arg for keyword in node.keywords if keyword.arg is not None)
            if _last_name(node.func) in _SPLITTING:
                texts = [getattr(node.func, "value", None), *node.args]
                yield from (word for text in texts for word in _text(text).replace(",", " ").split())
        elif isinstance(node, ast.Attribute):
            is_own = is_plain and isinstance(node.value, ast.Name) and node.value.id == "self"
            if isinstance(node.ctx, ast.Store) and id(node) not in skipped and not is_own:
                yield node.attr
        elif isinstance(node, ast.Constant):
            if id(node) not in skipped:
                yield _text(node).strip("-").replace("-", "_")
        elif isinstance(node, ast.ClassDef):
            yield from _declared(node)

    def _is_plain_call(self, callee: ast.expr) -> bool:
        """Return whether a call cannot make fields of its keywords."""
        root = callee
        while isinstance(root, ast.Attribute):
            root = root.value
        is_known = isinstance(root, ast.Name) and root.id in self._plain
        return is_known or _last_name(callee) in self._named


def _inside(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes of some statements, without the bodies of functions in them."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo += [*node.decorator_list, node.args]
        else:
            todo += ast.iter_child_nodes(node)


def _not_names(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what names no field that is made: docstrings, texts that are printed, and fields that are read."""
    if isinstance(node, ast.Expr):
        yield node.value
        if isinstance(node.value, ast.Call) and _last_name(node.value.func) == "print":
            yield from node.value.args
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.slice
    elif isinstance(node, ast.AugAssign):
        yield node.target
        yield getattr(node.target, "slice", node.target)


def _declared(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class may declare as fields."""
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            yield statement.name


def _pieces(node: ast.AST) -> Iterator[str]:
    """Yield the texts that are put together with others."""
    inner: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        inner = list(node.values)
        if any(isinstance(one, ast.Constant) and not f"_{_text(one)}".isidentifier() for one in inner):
            return  # A text with spaces or punctuation is not a name.
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        inner = [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _JOINING:
        inner = [node.func.value, *node.args]
    for one in inner:
        yield from _text(one).replace("%s", " ").replace("{}", " ").split()


def _uses(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant):
        yield _text(node)


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _second(module: str) -> str:
    top, _, rest = module.partition(".")
    return rest.partition(".")[0].removesuffix("?") if top == _OWN else ""


def _plain_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the names under which modules and functions of arrays are imported."""
    for alias in node.names:
        module = alias.name if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
        if module.partition(".")[0] in _OF_ARRAYS:
            yield alias.asname or alias.name.partition(".")[0]


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Yield imported modules; a name with ``?`` may be a module, or something in one."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, 0) for alias in node.names)
        return
    module = node.module or ""
    yield module, node.level
    yield from ((f"{module}.{alias.name}?".removeprefix("."), node.level) for alias in node.names)


def _makes_names(node: ast.AST) -> bool:
    """Return whether a node makes texts of which no part is written out."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("__name__", "__qualname__") or node.attr in _CUTTING
    if isinstance(node, ast.JoinedStr):
        return len(node.values) > 1 and not any(isinstance(one, ast.Constant) for one in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "split"):
        is_constant = isinstance(node.func.value, ast.Constant)
        if node.func.attr == "join":
            return is_constant and not _text(node.func.value)
        return not is_constant and (not (node.args or node.keywords) or any(map(_text, node.args)))
    return any(isinstance(key, (ast.BinOp, ast.Subscript)) and not list(_pieces(key)) for key in _keys(node))


def _keys(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what may name a field that is set."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        sides = [node.slice.left, node.slice.right] if isinstance(node.slice, ast.BinOp) else []
        yield from [node.slice] if sides and all(isinstance(side, ast.Name) for side in sides) else ()
    elif isinstance(node, ast.DictComp):
        yield node.key
    elif isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    elif isinstance(node, ast.Call) and _last_name(node.func) == "setattr":
        yield from node.args[1:2]


def _is_own(node: ast.Name | ast.Attribute, names: Collection[str]) -> bool:
    """Return whether a node is a function of the file, or a method."""
    is_local = isinstance(node, ast.Name) or getattr(node.value, "id", "") == "self"
    return is_local and _last_name(node) in names
