"""The stubs of untyped dependencies in ``stubs/`` say what is there at run time, in the installed packages.

They cover only what typedbatch uses, so what they leave out is not a fault.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STUBS = Path(__file__).parents[3] / "stubs"
PACKAGES = ("h5py", "lz4", "minari", "omegaconf", "pyarrow", "ray", "transfer_queue", "verl")
FILES = sorted(path for package in PACKAGES for path in (STUBS / package).rglob("*.pyi"))

_MISSING = object()
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def mismatches(body: list[ast.stmt], owner: Any, path: str) -> Iterator[str]:
    """Where the statements of a stub differ from a module, or from a class of it."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                found = look_up(owner, name)
                yield from (
                    mismatches(node.body, found, f"{path}.{name}") if found is not _MISSING else [f"{path}.{name}"]
                )
            case ast.FunctionDef(name=name) if name != "__getattr__":  # of a module: the rest of it is untyped
                found = look_up(owner, name)
                yield from parameters(node, found, f"{path}.{name}") if found is not _MISSING else [f"{path}.{name}"]
            case ast.AnnAssign(target=ast.Name(id=name)) if look_up(owner, name) is _MISSING:
                yield f"{path}.{name}"


def look_up(owner: Any, name: str) -> Any:
    """Return the attribute of a module or class, or None if its source only assigns it to instances."""
    found = inspect.getattr_static(owner, name, _MISSING)
    if found is _MISSING and inspect.isclass(owner):
        annotated = {key for base in owner.__mro__ for key in inspect.get_annotations(base)}
        return None if name in annotated or name in assigned(owner) else _MISSING
    return found


def assigned(owner: type) -> set[str]:
    """The attributes of ``self`` that the source of a class sets."""
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner)))
    except (OSError, TypeError):
        return set()
    targets = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    return {target.attr for target in targets if isinstance(target, ast.Attribute)}


def parameters(node: ast.FunctionDef, found: Any, path: str) -> Iterator[str]:
    """The parameters of a stub that a function does not have, or that it takes only in another way."""
    try:
        signature = inspect.signature(inspect.unwrap(getattr(found, "__func__", found)))
    except (TypeError, ValueError):  # a property, or a function of a compiled module
        return
    real = list(signature.parameters.values())
    kinds = {parameter.kind for parameter in real}
    by_position = [parameter for parameter in real if parameter.kind in _BY_POSITION]
    by_name = {parameter.name for parameter in real if parameter.kind in _BY_NAME}
    for index, argument in enumerate([*node.args.posonlyargs, *node.args.args]):
        if index >= len(by_position):
            if inspect.Parameter.VAR_POSITIONAL not in kinds:
                yield f"{path}({argument.arg})"
        elif by_position[index].name != argument.arg and not node.name.startswith("__"):
            yield f"{path}({argument.arg}), which is called {by_position[index].name}"
    for argument in node.args.kwonlyargs:
        if argument.arg not in by_name and inspect.Parameter.VAR_KEYWORD not in kinds:
            yield f"{path}({argument.arg})"
    if node.args.kwarg and inspect.Parameter.VAR_KEYWORD not in kinds:
        yield f"{path}(**{node.args.kwarg.arg})"


@pytest.mark.filterwarnings("ignore")  # of the packages, when they are imported
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(STUBS)))
def test_a_stub_declares_what_is_there(file: Path) -> None:
    parts = file.relative_to(STUBS).with_suffix("").parts
    pytest.importorskip(parts[0])
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    source = file.read_text(encoding="utf-8")
    assert list(mismatches(ast.parse(source).body, module, module.__name__)) == []


def test_every_stub_is_looked_at() -> None:
    others = {path.name for path in STUBS.iterdir() if path.is_dir()} - {"tianshou-stubs"}
    assert others == set(PACKAGES)
    assert {file.relative_to(STUBS).parts[0] for file in FILES} == set(PACKAGES)


class TestItself:
    """It notices what it is there for."""

    STUB = """
def dumps(obj: object, *, skipkeys: bool = ..., sort: bool = ...) -> str: ...
def load(file: object) -> object: ...
def parse(text: str) -> object: ...
class JSONDecoder:
    strict: bool
    lax: bool
    def decode(self, s: str, _w: object, more: int) -> object: ...
    def encode(self) -> str: ...
class JSONEncoding: ...
"""

    def test_mismatches(self) -> None:
        import json

        assert list(mismatches(ast.parse(self.STUB).body, json, "json")) == [
            "json.load(file), which is called fp", "json.parse", "json.JSONDecoder.lax",
            "json.JSONDecoder.decode(more)", "json.JSONDecoder.encode", "json.JSONEncoding",
        ]  # fmt: skip
