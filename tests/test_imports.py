"""What importing costs and pulls in, and which module may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import typedbatch

PACKAGE = Path(typedbatch.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Arrows run downwards only: a module imports from the rows above its own.
ORDER = [
    {"report", "active", "signals", "strangers", "mypy"},
    {"errors"},
    {"leaves", "level", "declaration"},
    {"_typing", "rows", "rules", "tensors", "distributions", "preview"},
    {"combine", "copying", "display", "memory"},
    {"direct"},
    {"construct", "inplace"},
    {"indexing", "conversion", "arithmetic", "equality"},
    {"differences", "casting"},
    {"assignment", "missing", "splitting", "functions"},
    {"gathering", "column"},
    {"compression"},
    {"sequences"},
    {"episodes", "layout"},
    {"input_dict"},
    {"batch"},
    {"sample_batch"},
    {"multi_agent"},
    {"naming"},
    {"pytree", "protocols"},
    {"records"},
    {"schema"},
    {"gate", "infer", "json_schema"},
    {"stages", "contents"},
    {"wrapping"},
    {"boundary"},
    {"jsonable"},
    {"_hdf5"},
    {"hdf5"},
    {"files"},
    {"buffers"},
    {"bridges"},
    {"testing", "cli"},
    {"__init__"},
    {"pytest_plugin"},
]
TORCH_MODULES = {"tensors", "distributions"}  # the bridge to torch: imported once a tensor is at hand


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_package_imports_neither_torch_nor_any_other_optional_dependency():
    heavy = ["torch", "pydantic", "jaxtyping", "h5py", "typer", "rich", "mypy", "optree", "gymnasium", "hypothesis"]
    code = f"import typedbatch, sys; print([m for m in {heavy} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_a_batch_of_arrays_works_without_torch_being_imported():
    code = (
        "import sys, pickle, copy, numpy as np; from typedbatch import Batch, RolloutBatchProtocol, conforms\n"
        "b = Batch(obs={'x': np.zeros((4, 2))}, act=[1, 2, 3, 4], note=None)\n"
        "list(b.split(2)); Batch.cat([b, b]); Batch.stack([b, b]); b[0]; b[[1]]; b + 0; b == b; b.to_numpy()\n"
        "pickle.loads(pickle.dumps(b)); copy.deepcopy(b); repr(b); b._repr_html_(); np.mean(b); b.isnull()\n"
        "conforms(b, RolloutBatchProtocol)\n"
        "print('torch' in sys.modules)"
    )
    assert run(code).strip() == "False"


def test_without_torch_a_conversion_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from typedbatch import Batch\n"
        "b = Batch(a=[1.0])\n"
        "try:\n    b.to_torch_()\n"
        "except ImportError as error:\n    print(error, '|', type(b.a).__name__)"
    )
    assert run(code).strip() == "tensors need torch; pip install 'typedbatch[torch]' | ndarray"


def test_torch_imported_after_typedbatch_is_known_from_the_first_tensor_on():
    code = (
        "from typedbatch import Batch\nimport torch\nfrom torch.utils import _pytree\n"
        "b = Batch(a=torch.ones(2), n=Batch(b=torch.ones(2)))\n"
        "print(_pytree.tree_map(lambda t: t + 1, b).n.b.tolist(), torch.vmap(lambda b: b.a + b.n.b)(b).tolist())"
    )
    assert run(code).strip() == "[2.0, 2.0] [2.0, 2.0]"


def level(module: str) -> int:
    name = module.split(".")[1] if "." in module else "__init__"
    return next(i for i, row in enumerate(ORDER) if name in row)


def imports_of(path: Path) -> list[str]:
    """Modules of the package that a file imports at its top level."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module == "typedbatch":
            found += [f"typedbatch.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("typedbatch."):
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_run_downwards_only(path: Path):
    inside = path.parent != PACKAGE
    own = (
        f"typedbatch.{path.parent.name if inside else path.stem}"
        if path.name != "__init__.py" or inside
        else "typedbatch"
    )
    for imported in imports_of(path):
        if inside and imported.startswith(own):
            continue
        assert level(imported) < level(own), f"{path.name} imports {imported}"
        assert imported.split(".")[1] not in TORCH_MODULES, f"{path.name} imports torch's bridge at its top"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_small(path: Path):
    assert len(path.read_text().splitlines()) < 600
