"""``typedbatch check``: what it finds in projects with other checkers or none, with a real mypy."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from typedbatch._check import Checked, Diagnostic, check
from typedbatch._check.diagnostics import as_github, as_json, as_sarif, as_text, parsed
from typedbatch._check.settings import settings_of
from typedbatch._report import page_address
from typedbatch.errors import SettingError

pytestmark = pytest.mark.slow

UNTYPED = """\
from typedbatch import Batch

def learn():
    batch = Batch(obs=1, act=2)
    return batch.rew
"""
RETURNED = """\
import numpy as np
from typedbatch import Batch, ObsBatchProtocol

def make() -> ObsBatchProtocol:
    batch = Batch(act=np.zeros(3))
    return batch
"""
FOREIGN = """\
import nowhere

number: int = "no number"
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests here share, as mypy spends most of its time on numpy and torch."""
    return tmp_path_factory.mktemp("cache")


def project(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def checked(folder: Path, cache: Path, files: dict[str, str], *paths: str) -> Checked:
    project(folder, files)
    return check([Path(path) for path in paths], cache=cache, folder=folder)


def lines(result: Checked) -> list[str]:
    assert result.failure == ""
    return [str(one) for one in result.found]


def test_functions_without_annotations_are_looked_at(tmp_path, cache):
    assert lines(checked(tmp_path, cache, {"a.py": UNTYPED})) == [
        'a.py:5:12: error: Batch has no field "rew"; it has act, obs  [batch-field]'
    ]


def test_a_batch_that_is_returned_has_a_code_of_its_own(tmp_path, cache):
    (line,) = lines(checked(tmp_path, cache, {"a.py": RETURNED}))
    assert line == 'a.py:6:12: error: Batch lacks "info", "obs" of ObsBatchProtocol; it has act  [batch-argument]'


def test_what_mypy_says_of_other_things_is_left_out(tmp_path, cache):
    assert lines(checked(tmp_path, cache, {"a.py": FOREIGN})) == []


def test_a_file_that_is_no_python_does_not_stop_the_others(tmp_path, cache):
    files = {"a.py": f"import b\n{UNTYPED}", "b.py": "def f(:\n", "c.py": "x = (\n"}
    result = checked(tmp_path, cache, files)
    assert [(one.file, one.code) for one in result.found] == [
        ("a.py", "batch-field"),
        ("b.py", "syntax"),
        ("c.py", "syntax"),
    ]


def test_a_file_that_is_imported_and_is_no_python_does_not_stop_the_others(tmp_path, cache):
    files = {"a.py": f"import b\nimport deep.d\n{UNTYPED}", "b.py": "def f(:\n", "deep/d.py": "x = (\n"}
    result = checked(tmp_path, cache, files, "a.py")
    assert {(one.file, one.code) for one in result.found} == {
        ("a.py", "batch-field"),
        ("b.py", "syntax"),
        ("deep/d.py", "syntax"),
    }


def test_files_of_one_name_in_several_folders_are_no_failure(tmp_path, cache):
    files = {"one/run.py": UNTYPED, "two/run.py": UNTYPED, "src/mine/__init__.py": "", "src/mine/run.py": UNTYPED}
    files["one/use.py"] = "import mine.run\nmine.run.learn()\n"
    assert [one.file for one in checked(tmp_path, cache, files).found] == [
        "one/run.py",
        "src/mine/run.py",
        "two/run.py",
    ]


def test_names_of_files_may_be_odd(tmp_path, cache):
    files = {"-x.py": UNTYPED, "with space/a+(1).py": "x = (\n", "[b].py": "def f(:\n", "c.py": UNTYPED}
    result = checked(tmp_path, cache, files, "-x.py", "with space", "[b].py", "c.py")
    assert [(one.file, one.code) for one in result.found] == [
        ("-x.py", "batch-field"),
        ("[b].py", "syntax"),
        ("c.py", "batch-field"),
        ("with space/a+(1).py", "syntax"),
    ]


def test_settings_that_say_where_code_is_are_kept(tmp_path, cache):
    settings = """\
[tool.mypy]
exclude = ["old/.*", "older"]
mypy_path = ["lib"]
disallow_untyped_defs = true
[tool.typedbatch-mypy]
shapes = false
"""
    files = {"pyproject.toml": settings, "old/a.py": UNTYPED, "older.py": UNTYPED, "new.py": UNTYPED}
    files["old/template.py"] = "{{ not python }} (\n"
    assert [one.file for one in checked(tmp_path, cache, files).found] == ["new.py"]


def test_a_project_with_the_plugin_keeps_its_settings(tmp_path, cache):
    """Errors that are ignored there stay ignored, and functions without annotations are left out."""
    ignored = RETURNED.replace("return batch", "return batch  # type: ignore[return-value]")
    files = {
        "mypy.ini": "[mypy]\nplugins = typedbatch.mypy\nfiles = a.py, c.py, d.py\n",
        "a.py": UNTYPED,
        "b.py": UNTYPED,
    }
    result = checked(tmp_path, cache, {**files, "c.py": RETURNED, "d.py": ignored})
    command = [sys.executable, "-m", "mypy", f"--cache-dir={cache}", "--show-error-end", "--no-error-summary"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = parsed(done.stdout)
    assert [(one.file, one.line, one.message) for one in result.found] == [
        (one.file, one.line, one.message) for one in said
    ]
    assert ([one.code for one in said], [one.code for one in result.found]) == (["return-value"], ["batch-argument"])


def test_files_of_the_settings_are_relative_to_them(tmp_path, cache):
    files = {
        "mypy.ini": "[mypy]\nfiles = lib/*.py, main.py\n",
        "lib/a.py": UNTYPED,
        "main.py": UNTYPED,
        "no.py": UNTYPED,
    }
    project(tmp_path, {**files, "deep/b.py": UNTYPED})
    result = check(cache=cache, folder=tmp_path / "deep")
    assert sorted(one.file for one in result.found) == ["../lib/a.py", "../main.py"]


def test_the_folder_above_may_have_the_settings(tmp_path):
    project(tmp_path, {"setup.cfg": "[mypy]\nplugins = other\n", "deep/a.py": ""})
    settings = settings_of(tmp_path / "deep")
    assert (settings.root, settings.plugins, settings.has_plugin) == (tmp_path, ["other"], False)
    project(tmp_path, {"deep/pyproject.toml": "[project]\nname = 'mine'\n"})
    assert settings_of(tmp_path / "deep").file is None


def test_settings_that_cannot_be_read_are_named(tmp_path):
    project(tmp_path, {"pyproject.toml": "[tool.mypy\n"})
    with pytest.raises(SettingError, match=r"pyproject\.toml cannot be read as TOML"):
        check(folder=tmp_path)
    project(tmp_path, {"mypy.ini": "no section\n"})
    with pytest.raises(SettingError, match=r"mypy\.ini cannot be read"):
        check(folder=tmp_path)


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"nowhere\.py does not exist"):
        check([Path("nowhere.py")], folder=tmp_path)


def test_mypy_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="pip install mypy"):
        check(folder=tmp_path)


def test_a_program_that_mypy_cannot_check_is_a_failure(tmp_path, cache):
    files = {"mypy.ini": "[mypy]\nplugins = nowhere.at_all\n", "a.py": UNTYPED}
    result = checked(tmp_path, cache, files)
    assert result.found == []
    assert "nowhere.at_all" in result.failure


def test_the_cache_is_kept_out_of_git(tmp_path):
    project(tmp_path, {"a.py": "", "pyproject.toml": "[project]\nname = 'mine'\n", "deep/b.py": ""})
    assert lines(check(folder=tmp_path / "deep")) == []
    assert "*" in (tmp_path / ".typedbatch_cache" / ".gitignore").read_text("utf-8").split()


# ---- formats -----------------------------------------------------------------------------------------------------

FOUND = [
    Diagnostic("a,b.py", 3, 5, 3, 9, "error", 'Batch has no field "100%"', "batch-field"),
    Diagnostic("c.py", 1, 1, 1, 1, "error", "invalid syntax", "syntax"),
]


def test_lines_as_checkers_print_them():
    assert as_text(FOUND).splitlines() == [
        'a,b.py:3:5: error: Batch has no field "100%"  [batch-field]',
        "c.py:1:1: error: invalid syntax  [syntax]",
    ]


def test_json():
    first, second = json.loads(as_json(FOUND))
    assert (first["file"], first["end_column"], first["page"]) == ("a,b.py", 9, page_address("batch-field"))
    assert second["page"] == ""
    assert json.loads(as_json([])) == []


def test_annotations_of_github_are_escaped():
    first, second = as_github(FOUND).splitlines()
    assert first.startswith("::error file=a%2Cb.py,line=3,col=5,endLine=3,endColumn=9,title=batch-field::")
    assert 'no field "100%25" https' in first
    assert second == "::error file=c.py,line=1,col=1,endLine=1,endColumn=1,title=syntax::invalid syntax"


def test_sarif():
    log = json.loads(as_sarif(FOUND, "1.2"))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["version"] == "1.2"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["batch-field", "syntax"]
    place: Any = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a,b.py"}
    assert place["region"] == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 10}


# ---- the command -------------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("typedbatch")), "check", *arguments]


@pytest.mark.parametrize(
    ("files", "arguments", "code", "words"),
    [
        ({"a.py": UNTYPED}, [], 1, 'a.py:5:12: error: Batch has no field "rew"'),
        ({"a.py": "x = 1\n"}, [], 0, "no findings"),
        ({"a.py": "x = 1\n"}, ["--format", "json"], 0, "[]"),
        ({"a.py": UNTYPED}, ["nowhere.py"], 2, "nowhere.py does not exist"),
        ({"a.py": "", "mypy.ini": "[mypy]\nplugins = nowhere\n"}, [], 2, "nowhere"),
    ],
)
def test_the_exit_says_what_was_found(tmp_path, cache, files, arguments, code, words):
    project(tmp_path, files)
    done = subprocess.run(
        command("--cache-dir", str(cache), *arguments), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


def test_the_oldest_mypy_finds_the_same(tmp_path):
    python = Path(sys.prefix) / "mypy" / "1.20.2" / "bin" / "python"
    if not python.exists():
        pytest.skip("mypy 1.20 is not installed; make check installs it")
    project(tmp_path, {"untyped.py": UNTYPED, "returned.py": RETURNED, "foreign.py": FOREIGN, "broken.py": "def f(:\n"})
    run = [str(python), "-m", "typedbatch.cli", "check", "--format", "json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [(one["file"], one["line"], one["column"], one["code"]) for one in json.loads(done.stdout)] == [
        ("broken.py", 1, 7, "syntax"),
        ("returned.py", 6, 12, "batch-argument"),
        ("untyped.py", 5, 12, "batch-field"),
    ]


def test_it_checks_again_when_a_file_changes(tmp_path, cache):
    project(tmp_path, {"a.py": "x = 1\n"})
    watching = subprocess.Popen(
        command("--cache-dir", str(cache), "--watch"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline() == "no findings\n"
        time.sleep(0.1)
        project(tmp_path, {"a.py": UNTYPED})
        assert watching.stdout.readline().startswith("--- ")
        assert 'Batch has no field "rew"' in watching.stdout.readline()
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()
