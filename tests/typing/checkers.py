"""One adapter per type checker: how it is run over a folder of programs, as its users would, and how it is read."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class CheckerFailedError(Exception):
    """A checker did not run to its end, or printed what cannot be read."""


class CheckerMissingError(CheckerFailedError):
    """A checker is not installed."""


@dataclass(frozen=True)
class Diagnostic:
    """One report of a checker; ``file`` is a program's name, or a path when it is elsewhere."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Checker:
    """How one checker is run and read.

    Attributes:
        name: as in marks.
        command: less the files; ``{python}`` is the interpreter whose packages it sees, ``{environment}`` the folder of
            this one's environment, ``{cache}`` a folder of the checker's own.
        read: from what it prints to diagnostics; raises ValueError, KeyError or TypeError for anything unexpected.
        settings: files to write beside the programs; they also stop the checker from looking for others further up.
        sets_defaults: the first ``C[X]`` that is evaluated sets the defaults of C's other parameters in all that is
            checked after it (mypy#19192). A program with one could make others fail, and is checked by itself.
        installed_by: what sets the checker up.
    """

    name: str
    command: str
    read: Callable[[str], list[Diagnostic]]
    settings: Mapping[str, str]
    sets_defaults: bool = False
    installed_by: str = "pip install -e '.[dev]'"


def _read_mypy(output: str) -> list[Diagnostic]:
    lines = [line for line in output.splitlines() if line.startswith("{")]  # or it says that there is none
    reports: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [Diagnostic(r["file"], r["line"], _lines(r["message"], r["hint"])) for r in reports]


def _read_pyright(output: str) -> list[Diagnostic]:
    reports: list[dict[str, Any]] = json.loads(output)["generalDiagnostics"]
    return [
        Diagnostic(r["file"], r["range"]["start"]["line"] + 1, _lines(r["message"], r.get("rule"))) for r in reports
    ]


def _read_pyrefly(output: str) -> list[Diagnostic]:
    reports: list[dict[str, Any]] = json.loads(output)["errors"]
    return [Diagnostic(r["path"], r["line"], _lines(r["description"], r["name"])) for r in reports]


def _read_ty(output: str) -> list[Diagnostic]:
    reports: list[dict[str, Any]] = json.loads(output)
    return [
        Diagnostic(r["location"]["path"], r["location"]["positions"]["begin"]["line"], r["description"])
        for r in reports
    ]


def _read_zuban(output: str) -> list[Diagnostic]:
    *reports, summary = output.splitlines()
    if not re.fullmatch(r"Found \d+ errors? in \d+ files? .*|Success: .*", summary):
        raise ValueError(f"the last line is not a summary: {summary!r}")
    found = []
    for report in reports:
        match = re.fullmatch(r"(.+?):(\d+): (?:error|note): (.*)", report)
        if match is None:
            raise ValueError(f"not a report: {report!r}")
        found.append(Diagnostic(match[1], int(match[2]), match[3]))
    return found


def _lines(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)


_MYPY = "mypy --config-file=mypy.ini --python-executable={python} --cache-dir={cache} --output=json"
_MYPY_INI = "[mypy]\nstrict = True\nwarn_unreachable = True\n"


def _older_mypy(version: str) -> Checker:
    """The mypy that ``make`` put into an environment of its own; it checks against the packages of this one."""
    before_2_2 = [int(part) for part in version.split(".")] < [2, 2]
    return Checker(
        f"mypy-{version.rpartition('.')[0]}",
        f"{{environment}}/mypy/{version}/bin/{_MYPY}",
        _read_mypy,
        # Before 2.2 the cache, in its usual format, keeps a TypeForm as a type, and then validate takes no protocol.
        {"mypy.ini": _MYPY_INI + "fixed_format_cache = False\n" * before_2_2},
        sets_defaults=before_2_2,
        installed_by="make .venv/.mypys",
    )


_OLDER_MYPYS = (Path(__file__).parent / "older_mypys.txt").read_text(encoding="utf-8").split()

_PYRIGHT = {"typeCheckingMode": "strict", "include": ["."]}
# basedpyright's strictest mode; leaves are Any by nature, and the other three are about style.
_UNWANTED = ("Any", "ExplicitAny", "UnusedCallResult", "UnusedParameter", "UnannotatedClassAttribute")
_BASEDPYRIGHT = {"typeCheckingMode": "all", "include": ["."], **{f"report{rule}": "none" for rule in _UNWANTED}}

_ALL = (
    *map(_older_mypy, _OLDER_MYPYS),
    Checker("mypy", _MYPY, _read_mypy, {"mypy.ini": _MYPY_INI}),
    Checker(
        "pyright",
        "pyright --pythonpath {python} --outputjson",
        _read_pyright,
        {"pyrightconfig.json": json.dumps(_PYRIGHT)},
    ),
    Checker(
        "basedpyright",
        "basedpyright --pythonpath {python} --outputjson",
        _read_pyright,
        {"pyrightconfig.json": json.dumps(_BASEDPYRIGHT)},
    ),
    Checker(
        "pyrefly",
        "pyrefly check --preset=strict --python-interpreter-path={python} --output-format=json --summary=none",
        _read_pyrefly,
        {"pyrefly.toml": ""},
    ),
    Checker(
        "ty",
        "ty check --python={python} --output-format=gitlab --no-progress",
        _read_ty,
        {"ty.toml": ""},
    ),
    Checker(
        "zuban",
        "zuban check --strict --python-executable={python}",
        _read_zuban,
        {"mypy.ini": "[mypy]\n"},
    ),
)
CHECKERS: dict[str, Checker] = {checker.name: checker for checker in _ALL}


def with_plugin(checker: Checker) -> Checker:
    """A mypy with ``plugins = typedbatch.mypy``; a fault of the plugin is shown, and then no report can be read."""
    settings = {"mypy.ini": checker.settings["mypy.ini"] + "plugins = typedbatch.mypy\n"}
    return replace(checker, command=f"{checker.command} --show-traceback", settings=settings)


MYPYS = [name for name in CHECKERS if name.partition("-")[0] == "mypy"]


THIS_PYTHON = Path(sys.executable)


def run(checker: Checker, folder: Path, cache: Path, python: Path = THIS_PYTHON) -> list[Diagnostic]:
    """What a checker reports of the programs in ``folder``, in the environment of ``python``, which it is installed in.

    Raises:
        CheckerMissingError: it is not installed.
        CheckerFailedError: it crashed, or printed something else than a report.
    """
    folder = folder.resolve()
    for name, text in checker.settings.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = command_of(checker, cache, python)
    programs = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    alone = [name for name, source in programs.items() if is_alone(checker, source)]
    found: list[Diagnostic] = []
    for together in [[name for name in programs if name not in alone], *([name] for name in alone)]:
        found += _run_once(checker, [*command, *together], folder, python) if together else []
    return found


def command_of(checker: Checker, cache: Path, python: Path = THIS_PYTHON) -> list[str]:
    """How it is called, less the files."""
    places = {"python": python, "environment": sys.prefix, "cache": cache}
    return [part.format(**places) for part in checker.command.split()]


def is_alone(checker: Checker, source: str) -> bool:
    """Return whether a program is checked in a run of its own, as it could make others fail."""
    return checker.sets_defaults and _evaluates_a_type(source)


def _evaluates_a_type(source: str) -> bool:
    """Does a program have a ``C[X]`` that is no annotation, where ``C`` is of typedbatch."""
    nodes = list(ast.walk(ast.parse(source)))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("typedb")]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    annotations = [getattr(node, "annotation", None) or getattr(node, "returns", None) for node in nodes]
    quiet = {part for annotation in annotations if annotation is not None for part in ast.walk(annotation)}
    evaluated = {ast.unparse(node.value) for node in nodes if isinstance(node, ast.Subscript) and node not in quiet}
    return not names.isdisjoint(evaluated)


def _run_once(checker: Checker, command: list[str], folder: Path, python: Path) -> list[Diagnostic]:
    done = call(checker, command, folder, python)
    said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    if done.returncode != 1:  # 1 is "there are diagnostics", and a canary sings in every program
        raise CheckerFailedError(f"{checker.name} ended with status {done.returncode}\n{said}")
    try:
        reports = checker.read(done.stdout)
        if not reports:
            raise ValueError("no report")
    except (ValueError, KeyError, TypeError) as error:
        raise CheckerFailedError(f"{checker.name} printed what cannot be read ({error!r})\n{said}") from error
    return [Diagnostic(_relative(report.file, folder), report.line, report.message) for report in reports]


def call(
    checker: Checker, command: list[str], folder: Path, python: Path = THIS_PYTHON
) -> subprocess.CompletedProcess[str]:
    """Run a checker.

    Raises:
        CheckerMissingError: it is not installed.
    """
    try:
        return run_tool(command, folder, python)
    except CheckerMissingError as error:
        raise CheckerMissingError(f"{error}; {checker.installed_by} does it") from None


def run_tool(command: list[str], folder: Path, python: Path = THIS_PYTHON) -> subprocess.CompletedProcess[str]:
    """Run a tool, by default one beside ``python``, untouched by the settings of the shell around it.

    Raises:
        CheckerMissingError: there is no such tool.
    """
    beside = str(python.parent)
    tool = shutil.which(command[0], path=beside)
    if tool is None:
        raise CheckerMissingError(f"{Path(beside, command[0])} is not installed")
    settings = {name: value for name, value in os.environ.items() if not _steers_a_checker(name)}
    settings |= {"PATH": beside + os.pathsep + os.environ.get("PATH", ""), "NO_COLOR": "1"}
    settings |= {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # no look-up of a newer version
    with subprocess.Popen(
        [tool, *command[1:]],
        cwd=folder,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, so that what a launcher started ends with it
    ) as process:
        try:
            printed, complained = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, complained)


def _steers_a_checker(variable: str) -> bool:
    return variable.startswith(("MYPY", "PYREFLY_", "TY_", "PYTHONPATH", "FORCE_COLOR"))


def _relative(file: str, folder: Path) -> str:
    path = folder / file
    return path.name if path.parent == folder else file
