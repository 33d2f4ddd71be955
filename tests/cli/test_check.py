"""``typedbatch check --mypy``: what it finds in projects with other checkers or none, with a real mypy."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.typing.caches import stored
from typedbatch._report import page_address
from typedbatch.cli.diagnostics import Diagnostic, as_github, as_json, as_sarif, as_text, parsed
from typedbatch.cli.mypy_run import Checked, check_types
from typedbatch.cli.settings import settings_of
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


@dataclass(frozen=True)
class Environment:
    """Packages that the code imports, and caches that all tests here share, as mypy spends most of its time on numpy.

    Attributes:
        python: Python of the packages.
        caches: Folder of a cache for each set of settings, as mypy uses nothing that it has found under other ones.
    """

    python: Path
    caches: Path

    def cache_for(self, folder: Path) -> Path:
        """Return the folder of the cache for a project."""
        files = [folder / name for name in ("mypy.ini", "pyproject.toml")]
        settings = "".join(file.read_text("utf-8") for file in files if file.exists())
        matter = re.findall(r"^(?:plugins|check_untyped_defs|shapes).*", settings, re.MULTILINE)
        return self.caches / f"{crc32(repr(matter).encode()):x}"


@pytest.fixture(scope="module")
def environment(without_torch: Path, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """An environment without torch, for which mypy needs four times as long."""
    with stored(kept, "cli", tmp_path_factory.mktemp("cli") / "caches") as caches:
        caches.mkdir(exist_ok=True)
        yield Environment(without_torch, caches)


def project(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def checked(folder: Path, environment: Environment, files: dict[str, str], *paths: str) -> Checked:
    project(folder, files)
    cache = environment.cache_for(folder)
    return check_types([Path(path) for path in paths], python=environment.python, cache=cache, folder=folder)


def lines(result: Checked) -> list[str]:
    assert result.failure == ""
    return [str(one) for one in result.found]


def test_batches_are_looked_at_in_functions_without_annotations_too_and_nothing_else(tmp_path, environment):
    assert lines(checked(tmp_path, environment, {"a.py": UNTYPED, "b.py": RETURNED, "c.py": FOREIGN})) == [
        'a.py:5:12: error: Batch has no field "rew"; it has act, obs  [batch-field]',
        'b.py:6:12: error: Batch lacks "info", "obs" of ObsBatchProtocol; it has act  [batch-argument]',
    ]


LACKING = '"act", "obs_next", "returns", "rew", "terminated", "truncated"'
STAGES = """\
import numpy as np
from typedbatch import BatchWithReturns, ObsBatch, Batch
made = ObsBatch(obs=np.zeros(3), info=Batch())
print(made.observation)
def of_stage(batch: ObsBatch) -> BatchWithReturns:
    print(batch.observation)
    return batch
"""


def test_what_mypy_reports_in_the_words_of_the_plugin_has_its_codes(tmp_path, environment):
    assert [re.sub("; .*  ", "  ", line) for line in lines(checked(tmp_path, environment, {"a.py": STAGES}))] == [
        'a.py:4:7: error: ObsBatch has no field "observation"  [batch-field]',
        'a.py:6:11: error: ObsBatch has no field "observation"  [batch-field]',
        f"a.py:7:12: error: ObsBatch lacks {LACKING} of BatchWithReturns  [batch-argument]",
    ]


def test_a_file_that_is_no_python_does_not_stop_the_others(tmp_path, environment):
    files = {"a.py": f"import b\n{UNTYPED}", "b.py": "def f(:\n", "c.py": "x = (\n"}
    result = checked(tmp_path, environment, files)
    assert [(one.file, one.code) for one in result.found] == [
        ("a.py", "batch-field"),
        ("b.py", "syntax"),
        ("c.py", "syntax"),
    ]


def test_a_file_that_is_imported_and_is_no_python_does_not_stop_the_others(tmp_path, environment):
    files = {"a.py": f"import b\nimport deep.d\n{UNTYPED}", "b.py": "def f(:\n", "deep/d.py": "x = (\n"}
    result = checked(tmp_path, environment, files, "a.py")
    assert {(one.file, one.code) for one in result.found} == {
        ("a.py", "batch-field"),
        ("b.py", "syntax"),
        ("deep/d.py", "syntax"),
    }


def test_files_of_one_name_in_several_folders_are_no_failure(tmp_path, environment):
    files = {"one/run.py": UNTYPED, "two/run.py": UNTYPED, "src/mine/__init__.py": "", "src/mine/run.py": UNTYPED}
    files["one/use.py"] = "import mine.run\nmine.run.learn()\n"
    assert [one.file for one in checked(tmp_path, environment, files).found] == [
        "one/run.py",
        "src/mine/run.py",
        "two/run.py",
    ]


def test_names_of_files_may_be_odd(tmp_path, environment):
    files = {"-x.py": UNTYPED, "with space/a+(1).py": "x = (\n", "[b].py": "def f(:\n", "c.py": UNTYPED}
    result = checked(tmp_path, environment, files, "-x.py", "with space", "[b].py", "c.py")
    assert [(one.file, one.code) for one in result.found] == [
        ("-x.py", "batch-field"), ("[b].py", "syntax"), ("c.py", "batch-field"), ("with space/a+(1).py", "syntax"),
    ]  # fmt: skip


def test_settings_that_say_where_code_is_are_kept(tmp_path, environment):
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
    assert [one.file for one in checked(tmp_path, environment, files).found] == ["new.py"]


def test_a_project_with_the_plugin_keeps_its_settings(tmp_path, environment):
    """Errors that are ignored there stay ignored, and functions without annotations are left out."""
    ignored = RETURNED.replace("return batch", "return batch  # type: ignore[return-value]")
    files = {
        "mypy.ini": "[mypy]\nplugins = typedbatch.mypy\nfiles = a.py, c.py, d.py\n",
        "a.py": UNTYPED,
        "b.py": UNTYPED,
    }
    result = checked(tmp_path, environment, {**files, "c.py": RETURNED, "d.py": ignored})
    # The cache of the command is of no use to mypy, as errors about batches have other codes there.
    where = [f"--cache-dir={environment.cache_for(tmp_path)}-mypy", f"--python-executable={environment.python}"]
    run = [sys.executable, "-m", "mypy", *where, "--show-error-end", "--no-error-summary"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = parsed(done.stdout)
    assert [(one.file, one.line, one.message) for one in result.found] == [
        (one.file, one.line, one.message) for one in said
    ]
    assert ([one.code for one in said], [one.code for one in result.found]) == (["return-value"], ["batch-argument"])


def test_files_of_the_settings_are_relative_to_them(tmp_path, environment):
    files = {
        "mypy.ini": "[mypy]\nfiles = lib/*.py, main.py\n", "lib/a.py": UNTYPED, "main.py": UNTYPED, "no.py": UNTYPED,
    }  # fmt: skip
    project(tmp_path, {**files, "deep/b.py": UNTYPED})
    cache = environment.cache_for(tmp_path)
    result = check_types(python=environment.python, cache=cache, folder=tmp_path / "deep")
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
        check_types(folder=tmp_path)
    project(tmp_path, {"mypy.ini": "no section\n"})
    with pytest.raises(SettingError, match=r"mypy\.ini cannot be read"):
        check_types(folder=tmp_path)


def test_mypy_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="pip install mypy"):
        check_types(folder=tmp_path)


def test_a_program_that_mypy_cannot_check_is_a_failure(tmp_path, environment):
    files = {"mypy.ini": "[mypy]\nplugins = nowhere.at_all\n", "a.py": UNTYPED}
    result = checked(tmp_path, environment, files)
    assert result.found == []
    assert "nowhere.at_all" in result.failure


def test_the_cache_is_kept_out_of_git(tmp_path):
    project(tmp_path, {"a.py": "", "pyproject.toml": "[project]\nname = 'mine'\n", "deep/b.py": ""})
    assert lines(check_types(folder=tmp_path / "deep")) == []
    assert "*" in (tmp_path / ".typedbatch_cache" / ".gitignore").read_text("utf-8").split()


MARKED = "open({!r}, 'w').close()\nraise SystemExit(1)\n"
OURS = "[mypy]\nplugins = typedbatch.mypy\ncheck_untyped_defs = True\n"
PLUGIN = """\
import pathlib
from mypy.plugin import Plugin
pathlib.Path({!r}).touch()
def plugin(version): return Plugin
"""
FOUND_IN_A = ("a.py", "batch-field")


def shadows(folder: Path, names: Iterable[str]) -> None:
    """Write modules of a project with the names of others, each of which leaves a file named after it if it is run."""
    project(folder, {f"{name}.py": MARKED.format(str(folder / f"ran {name}")) for name in names})


def codes(result: Checked) -> list[tuple[str, str]]:
    assert result.failure == ""
    return [(one.file, one.code) for one in result.found]


@pytest.mark.parametrize(
    "settings", [{}, {"mypy.ini": "[mypy]\nplugins = typedbatch.mypy\ncheck_untyped_defs = True\n"}]
)
def test_no_module_of_the_project_takes_the_place_of_pythons(tmp_path, environment, settings):
    shadows(
        tmp_path, [*sys.stdlib_module_names, "typing_extensions", "mypy", "sitecustomize", "usercustomize", "conftest"]
    )
    project(tmp_path, {"a.py": UNTYPED, **settings})
    done = subprocess.run(command(tmp_path, environment), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "a.py:5:12: error: Batch has no field" in done.stdout
    assert "logging.py:1:1: note: this file is not checked: it stands in the place of a module" in done.stdout
    assert list(tmp_path.glob("ran *")) == []


@pytest.mark.parametrize(("name", "has_ours"), [("tools.mine", True), ("mine.py", False), ("mine.py:plugin", True)])
def test_plugins_of_the_project_are_run_and_nothing_beside_them(tmp_path, environment, name, has_ours):
    plugins = f"typedbatch.mypy, {name}" if has_ours else name
    files = {"mypy.ini": f"[mypy]\nplugins = {plugins}\ncheck_untyped_defs = True\n", "a.py": UNTYPED}
    path = "tools/mine.py" if "tools" in name else "mine.py"
    project(tmp_path, {path: PLUGIN.format(str(tmp_path / "plugin"))})
    shadows(tmp_path, ["logging", "tokenize"])
    assert codes(checked(tmp_path, environment, files, "a.py")) == [FOUND_IN_A]
    assert (tmp_path / "plugin").exists()
    assert list(tmp_path.glob("ran *")) == []


def test_a_traceback_is_not_a_check(tmp_path, environment, monkeypatch):
    """Python ends with the code of a mypy that has found errors."""
    (tmp_path / "site").mkdir()
    hidden = "import sys\nsys.modules['mypy.build'] = None\n"
    (tmp_path / "site" / "sitecustomize.py").write_text(hidden, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    result = checked(tmp_path, environment, {"a.py": UNTYPED})
    assert result.found == []
    assert "import of mypy.build halted" in result.failure


def test_what_mypy_prints_beside_its_findings_is_shown(tmp_path, environment):
    files = {"mypy.ini": "[mypy]\nplugins = typedbatch.mypy\nno_such_option = 1\n", "a.py": ""}
    assert "Unrecognized option: no_such_option = 1" in checked(tmp_path, environment, files).warnings


def odd_files(folder: Path) -> None:
    """Write what a folder may hold beside files of Python, and each of which stops mypy or has it wait."""
    links = {".#a.py": "nowhere", "gone.py": "nowhere", "self.py": "self.py", "zero.py": "/dev/zero"}
    links |= {"memory.py": "/proc/self/mem", "loop": ".", "one/up": "..", "one/across": "../two", "two/back": "../one"}
    for name, target in links.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.py")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket.py"))
    with (folder / "large.py").open("wb") as file:
        file.truncate(50 * 2**20)
    with open(os.fsencode(folder) + b"/\xff.py", "wb") as file:
        file.write(b"x = 1\n")
    (folder / "new\nline.py").write_text("x = 1\n")


UNCHECKED = {
    "gone.py": "No such file or directory",
    "self.py": "Too many levels of symbolic links",
    "zero.py": "it is not a regular file",
    "memory.py": "Input/output error",
    "pipe.py": "it is not a regular file",
    "socket.py": "it is not a regular file",
    "large.py": "it has 52,428,800 bytes, and files of more than 5,242,880 are left out",
    r"\udcff.py": "its name has characters that cannot be written as text",
    r"new\nline.py": "its name has characters that cannot be written as text",
}


@pytest.mark.parametrize("settings", ["", OURS])
def test_files_that_cannot_be_read_are_named_and_the_others_checked(tmp_path, environment, settings):
    odd_files(tmp_path)
    project(tmp_path, {"mypy.ini": settings, "a.py": f"import pipe, gone, large\n{UNTYPED}"})
    result = checked(tmp_path, environment, {})
    assert result.failure == ""
    left = {one.file: one.message for one in result.found if one.code == "unchecked" and one.severity == "note"}
    assert left == {file: f"this file is not checked: {why}" for file, why in UNCHECKED.items()}
    assert [(one.file, one.code) for one in result.found if one.severity == "error"] == [FOUND_IN_A]


def test_a_file_that_is_given_and_cannot_be_read_is_an_error(tmp_path, environment):
    odd_files(tmp_path)
    (one,) = checked(tmp_path, environment, {}, "pipe.py").found
    assert (one.severity, one.message) == ("error", "this file is not checked: it is not a regular file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_and_folders_that_must_not_be_read_are_named(tmp_path, environment):
    project(tmp_path, {"a.py": UNTYPED, "b.py": "", "closed/c.py": ""})
    for name in ("b.py", "closed"):
        (tmp_path / name).chmod(0)
    try:
        assert codes(checked(tmp_path, environment, {})) == [FOUND_IN_A, ("b.py", "unchecked"), ("closed", "unchecked")]
    finally:
        (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x = " + b" + ".join([b"1"] * 40_000), "this is nested too deeply"),
        (b"y = 1\nx = " + b"-" * 100_000 + b"1", "this is nested too deeply"),
        (b"x = " + b"[" * 5_000 + b"]" * 5_000, "too many nested parentheses"),
        (b"x = 1\0\n", "source code string cannot contain null bytes"),
        ("x = 1\n".encode("utf-16"), "invalid or missing encoding declaration"),
        (b"# \xe9\n", "invalid or missing encoding declaration"),
        (b"# coding: hex\n", "'hex' is not a text encoding"),
        (b"# coding: nonsense\n", "unknown encoding"),
    ],
)
def test_a_text_that_python_cannot_read_is_named_and_the_others_checked(tmp_path, environment, content, words):
    (tmp_path / "b.py").write_bytes(content)
    result = checked(tmp_path, environment, {"a.py": f"import b\n{UNTYPED}"})
    assert codes(result) == [FOUND_IN_A, ("b.py", "syntax")]
    assert result.found[1].message.startswith(words)
    before, dashes, _ = content.partition(b"--")
    assert result.found[1].line == (1 + before.count(b"\n") if dashes else 1)


def test_a_sum_of_eight_thousand_numbers_costs_no_findings(tmp_path, environment):
    assert codes(checked(tmp_path, environment, {"a.py": UNTYPED + "x = " + " + ".join(["1"] * 8000)})) == [FOUND_IN_A]


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
    log = json.loads(as_sarif(FOUND))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert run["tool"]["driver"]["version"] == metadata.version("typedbatch")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["batch-field", "syntax"]
    place: Any = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a,b.py"}
    assert place["region"] == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 10}


def command(folder: Path, environment: Environment, *arguments: str) -> list[str]:
    given = ["--python", str(environment.python), "--cache-dir", str(environment.cache_for(folder))]
    return [str(Path(sys.executable).with_name("typedbatch")), "check", "--mypy", *given, *arguments]


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
def test_the_exit_says_what_was_found(tmp_path, environment, files, arguments, code, words):
    project(tmp_path, files)
    run = command(tmp_path, environment, *arguments)
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


def test_the_oldest_mypy_finds_the_same(tmp_path, without_torch):
    python = Path(sys.prefix) / "mypy" / "1.20.2" / "bin" / "python"
    if not python.exists():
        pytest.skip("mypy 1.20 is not installed; make check installs it")
    project(tmp_path, {"untyped.py": UNTYPED, "returned.py": RETURNED, "foreign.py": FOREIGN, "broken.py": "def f(:\n"})
    run = [str(python), "-m", "typedbatch.cli", "check", "--mypy", "--format", "json", "--python", str(without_torch)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [(one["file"], one["line"], one["column"], one["code"]) for one in json.loads(done.stdout)] == [
        ("broken.py", 1, 7, "syntax"),
        ("returned.py", 6, 12, "batch-argument"),
        ("untyped.py", 5, 12, "batch-field"),
    ]


def test_it_checks_again_when_a_file_changes(tmp_path, environment):
    project(tmp_path, {"a.py": "x = 1\n"})
    watching = subprocess.Popen(
        command(tmp_path, environment, "--watch"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
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
