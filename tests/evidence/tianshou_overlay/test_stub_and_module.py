"""The overlay says what is there at run time, in the installed Tianshou."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.evidence.tianshou_overlay.environments import OVERLAY

pytest.importorskip("tianshou")

PACKAGE = OVERLAY / OVERLAY.name
STUBS = sorted(PACKAGE.rglob("*.pyi"))

_OF_EVERY_BATCH = "BatchProtocol does not say so, but every batch has it: Batch itself, or the dictionary behind it"
ALLOWED = {
    f"tianshou.data.batch.BatchProtocol.{name}": _OF_EVERY_BATCH for name in ("__contains__", "items", "keys", "values")
}
"""Reports of stubtest -> reason."""


def module_of(stub: Path) -> ModuleType:
    parts = stub.relative_to(PACKAGE).with_suffix("").parts
    return importlib.import_module(".".join(["tianshou", *(part for part in parts if part != "__init__")]))


def names_in(source: str) -> set[str]:
    """The names that a module defines or, in an ``__init__``, takes from elsewhere."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.release  # stubtest reads all of torch; the names are compared below
def test_stubtest_reports_what_is_allowed(pythons: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "allowed.txt").write_text("\n".join(map(re.escape, ALLOWED)), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\n", encoding="utf-8")
    command = [str(pythons["with"]), "-m", "mypy.stubtest", "tianshou.data.batch"]
    # an entry that is not needed is reported too
    options = ["--mypy-config-file=mypy.ini", "--allowlist=allowed.txt"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 module" in done.stdout


def test_what_is_allowed_is_there_on_a_batch() -> None:
    from tianshou.data import Batch

    batch = Batch(a=np.zeros(2))
    assert "a" in batch
    assert (list(batch.keys()), len(batch.values()), len(batch.items())) == (["a"], 1, 1)


def test_the_batch_stub_has_the_names_of_the_module() -> None:
    module = module_of(PACKAGE / "data" / "batch.pyi")
    declared = names_in((PACKAGE / "data" / "batch.pyi").read_text(encoding="utf-8"))
    defined = names_in(Path(str(module.__file__)).read_text(encoding="utf-8"))
    assert declared - defined == {"_Number", "_Dict", "_Device"}, "helpers of the stub itself"
    assert defined <= declared


@pytest.mark.parametrize(
    "stub", [stub for stub in STUBS if stub.name == "__init__.pyi"], ids=lambda stub: stub.parent.name
)
def test_an_init_stub_has_the_names_of_the_package(stub: Path) -> None:
    module = module_of(stub)
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(module.__all__)
    for node in imports:
        source = importlib.import_module(str(node.module))
        for alias in node.names:
            assert getattr(source, alias.name) is getattr(module, alias.name)
    listed = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    assert [sorted(names) for names in listed] == [sorted(module.__all__)]
    assert names_in(stub.read_text(encoding="utf-8")) - {"__all__"} == names_in(
        Path(str(module.__file__)).read_text(encoding="utf-8")
    ) - {"__all__", "_register_log_config_callback"}


def test_every_folder_is_a_package_of_a_partial_distribution() -> None:
    assert (PACKAGE / "py.typed").read_text(encoding="utf-8") == "partial\n"
    assert all((stub.parent / "__init__.pyi").is_file() for stub in STUBS)


def test_the_distribution_is_of_the_tianshou_that_it_describes() -> None:
    import tianshou

    project = tomllib.loads((OVERLAY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"].startswith(f"{tianshou.__version__}.")
    assert f"Tianshou {tianshou.__version__}" in (OVERLAY / "README.md").read_text(encoding="utf-8")
    assert project["dependencies"] == ["tianshou>=2.0.1,<2.1"]


def test_the_wheel_holds_the_package(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, *pip, "--target", str(tmp_path), str(OVERLAY)], check=True, capture_output=True)
    installed = {path.relative_to(tmp_path / OVERLAY.name) for path in (tmp_path / OVERLAY.name).rglob("*.*")}
    assert installed == {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.*")}
