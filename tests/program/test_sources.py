"""Which files are one program, and what is done about those that cannot be read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.program.helpers import found_in, write
from typedbatch._program.source import files_in, programs_of, root_of
from typedbatch._program.vocabulary import imported_names

USES = "from typedbatch import Batch\n\nBatch(obs=1).rew\n"
MAKES = "from typedbatch import Batch\n\n\ndef make():\n    return Batch(obs=1)\n"


def grouped(folder: Path) -> list[list[str]]:
    return [[str(one.path.relative_to(folder)) for one in program.sources] for program in programs_of(files_in(folder))]


def test_files_that_import_each_other_are_one_program(tmp_path):
    files = {"a.py": USES, "b.py": "import c\n", "c.py": MAKES, "d.py": "import c.deep\n", "e.py": "import numpy\n"}
    write(tmp_path, files)
    assert grouped(tmp_path) == [["a.py"], ["b.py", "c.py", "d.py"]]


def test_packages_are_found_with_dots_through_namespaces_and_beside_scripts(tmp_path):
    files = {
        "pyproject.toml": "", "pkg/__init__.py": "", "pkg/data.py": MAKES,
        "pkg/sub/__init__.py": "from ..data import make\n", "space/other.py": "from pkg import sub\n",
        "train.py": "import space.other\n",
    }  # fmt: skip
    write(tmp_path, files)
    every = ["pkg/__init__.py", "pkg/data.py", "pkg/sub/__init__.py", "space/other.py", "train.py"]
    assert grouped(tmp_path) == [every]
    write(tmp_path, {"train.py": "import space.other\n\nspace.other.sub.make().rew\n"})
    assert [str(one.path.name) for one in found_in(tmp_path)] == ["train.py"]


def test_of_modules_with_one_name_the_nearest_is_meant(tmp_path):
    script = "from data import make\n\nmake().rew\n"
    paid = MAKES.replace("obs=1", "obs=1, rew=1")
    write(tmp_path, {"one/run.py": script, "one/data.py": MAKES, "two/run.py": script, "two/data.py": paid})
    assert [one.path.relative_to(tmp_path) for one in found_in(tmp_path)] == [Path("one/run.py")]


def test_files_that_cannot_be_read_leave_the_others(tmp_path):
    write(tmp_path, {"a.py": f"import b\nimport c\n{USES}", "b.py": "def f(:\n", "d.py": "x = (\n"})
    (tmp_path / "c.py").write_bytes(b"# -*- coding: nonsense -*-\n")
    (tmp_path / "e.py").write_bytes(b"\xff\x00")
    (tmp_path / "f.py").symlink_to(tmp_path / "nowhere")
    assert [one.line for one in found_in(tmp_path)] == [5]


def test_the_verdict_is_one_alone_together_and_in_any_order(tmp_path):
    files = {"a.py": USES, "b.py": f"import c\n\nc.make().rew\n{USES}", "c.py": MAKES, "d/a.py": USES}
    write(tmp_path, files)
    every = found_in(tmp_path)
    assert every == found_in(tmp_path)
    paths = [*files_in(tmp_path)]
    assert [len(one.sources) for one in programs_of(reversed(paths))] == [1, 2, 1]
    assert {one.message for one in found_in(tmp_path / "d")} == {
        one.message for one in every if one.path.parent.name == "d"
    }


def test_the_root_of_a_project_has_its_settings(tmp_path):
    write(tmp_path, {"p/pyproject.toml": "", "p/src/a/__init__.py": "", "p/src/a/b.py": ""})
    assert root_of(tmp_path / "p/src/a/b.py") == tmp_path / "p"


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("import a.b as c, d", ["a.b", "d"]),
        ("from a import b, c", ["a.b", "a.c"]),
        ("from . import b", ["pkg.sub.b"]),
        ("from ..x import *", ["pkg.x.*"]),
    ],
)
def test_imports_are_named_in_full(statement, names):
    (node,) = ast.parse(statement).body
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    assert imported_names(node, "pkg.sub") == names
