"""Imports: what they cost and pull in, and which module may import which."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import typedbatch
from tests import rooms
from tests.budget import BUDGET, WORDS

TORCH_MODULES = {"_core.tensors", "_core.distributions"}  # the bridge to torch: imported once a tensor is at hand
OF_THE_PROJECT = ("design.md", "changelog.md", "contributing.md", "versions.md", "SECURITY.md")
PAGES = [rooms.ROOT / "README.md", rooms.ROOT / "CHANGELOG.md", *(rooms.ROOT / "docs").rglob("*.md")]
NAMED = sorted({name for page in PAGES for name in re.findall(r"`typedbatch\.([\w.]*\w)", page.read_text("utf-8"))})


@pytest.mark.parametrize("name", NAMED)
def test_what_the_docs_name_is_there(name: str):
    found = typedbatch
    for part in name.split("."):
        if not hasattr(found, part):
            try:
                importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError as error:
                if str(error.name).startswith("typedbatch"):
                    raise
                return  # the module is there, and its library has an environment of its own
        found = getattr(found, part)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_package_imports_neither_torch_nor_any_other_optional_dependency():
    heavy = ["torch", "pydantic", "jaxtyping", "h5py", "typer", "rich", "mypy", "optree", "gymnasium", "hypothesis"]
    code = f"import sys; from typedbatch import *; print([m for m in {heavy} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_the_plugin_and_the_command_line_start_without_numpy():
    assert run("import sys, typedbatch.mypy, typedbatch.cli.mypy_run; print('numpy' in sys.modules)").strip() == "False"


def test_every_room_can_be_imported_first():
    first = [room for row in rooms.ORDER for room in row if room != "pytest_plugin"]
    code = (
        f"import importlib, sys\nfor room in {first}:\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'typedbatch']:\n"
        "        del sys.modules[name]\n"
        "    importlib.import_module(f'typedbatch.{room}')\n"
    )
    assert run(code) == ""


def test_checkers_are_told_the_modules_that_names_come_from():
    tree = ast.parse(Path(typedbatch.__file__).read_text(encoding="utf-8"))
    told = next(node.body for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in told if isinstance(node, ast.ImportFrom) and node.module != "typedbatch"]
    homes = {alias.name: node.module for node in imports for alias in node.names}
    assert homes == vars(typedbatch)["_HOME_OF"]
    assert sorted(homes) == sorted(typedbatch.__all__)
    with pytest.raises(AttributeError, match="module 'typedbatch' has no attribute 'Bacth'"):
        typedbatch.Bacth  # type: ignore[attr-defined]


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


@pytest.mark.parametrize("name", rooms.modules())
def test_arrows_run_downwards_only(name: str):
    rows = {room: number for number, row in enumerate(rooms.ORDER) for room in row}
    for imported in rooms.imports_of(rooms.modules()[name]):
        own, other = rooms.room(name), rooms.room(imported)
        assert other == own or rows[other] < rows[own], f"{name} imports {imported}"
        assert imported not in TORCH_MODULES or name == "distributions", f"{name} imports torch's bridge at its top"


@pytest.mark.parametrize("folder", rooms.folders())
def test_the_modules_of_a_folder_do_not_import_each_other_in_a_circle(folder: str):
    assert all(rooms.levels(folder))


def test_the_page_shows_the_rooms_as_they_are():
    assert rooms.page_with(rooms.table()) == rooms.PAGE.read_text(encoding="utf-8"), "make design-docs"


def test_no_folder_is_larger_than_its_budget():
    found = rooms.largest()
    assert found.keys() == BUDGET.keys()
    over = {name: size for name, size in found.items() if size[0] > BUDGET[name][0] or size[1] > BUDGET[name][1]}
    assert over == {}, "make it smaller, or raise tests/budget.py in a commit that says why"


@pytest.mark.parametrize("folder", WORDS)
def test_no_part_of_the_docs_has_more_words_than_its_budget(folder: str):
    pages = [page for page in (rooms.ROOT / "docs" / folder).glob("*.md") if page.name not in OF_THE_PROJECT]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    assert words <= WORDS[folder], "make it shorter, or raise tests/budget.py in a commit that says why"


@pytest.mark.parametrize("path", rooms.modules().values(), ids=rooms.modules())
def test_modules_stay_small(path: Path):
    assert len(path.read_text().splitlines()) < 600


def test_a_right_batch_is_validated_without_what_explains_a_wrong_one():
    code = """
import sys
import numpy as np
from typedbatch import Batch, ObsBatchProtocol, validate
validate(Batch(obs=np.zeros((2, 3)), info=Batch()), ObsBatchProtocol)
print([name for name in sys.modules if name.rpartition(".")[2] in ("explain", "blame", "proposals", "naming")])
"""
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("name", ["buffers", "files", "posttraining", "rows", "sample_batches", "testing", "training"])
def test_dir_of_a_package_shows_what_is_public_and_no_modules(name: str):
    package = importlib.import_module(f"typedbatch.{name}")
    assert dir(package) == sorted(package.__all__)
    assert not any(isinstance(getattr(package, member), ModuleType) for member in dir(package))
