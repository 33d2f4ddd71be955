"""Subcommands: ``check``, ``lsp``, ``validate``, ``infer``, ``show``, ``protocols``, ``explain`` and ``doctor``."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import StrEnum, auto
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.tree import Tree as TextTree

from typedbatch import protocols as declared
from typedbatch._core.kinds import ARRAY, BATCH, TENSOR, describe, kind_of
from typedbatch._core.level import current_level
from typedbatch._ops.display import first_values
from typedbatch._report import in_a_line, page_address, printable
from typedbatch._validation.validate import validate_at
from typedbatch.batch import Batch
from typedbatch.cli.arguments import read, schema_named
from typedbatch.cli.check import check
from typedbatch.cli.diagnostics import annotation, as_github, as_json, as_sarif, as_text
from typedbatch.cli.mypy_run import Checked, files_in
from typedbatch.errors import SchemaError, SettingError, TypedBatchError, did_you_mean
from typedbatch.infer import infer_schema

_LIBRARIES = ("numpy", "torch", "typing-extensions", "mypy", "jaxtyping", "pydantic")
_PAUSE = 0.5
"""Number of seconds between two looks at the files that are watched."""
_PACKAGE = Path(__file__).parents[1]
_PAGES = (_PACKAGE / "error_pages", _PACKAGE.parent / "docs" / "errors")
"""Folders of the pages of error codes, in an installed package and in the repository."""


_OF_MYPY = {"attr-defined": "batch-field", "arg-type": "batch-argument"}
"""Codes of mypy that the plugin's words may have, by the codes whose pages they are on."""


class Format(StrEnum):
    """Format of a report."""

    TEXT = auto()
    JSON = auto()
    GITHUB = auto()


class CheckFormat(StrEnum):
    """Format of the findings in code."""

    TEXT = auto()
    JSON = auto()
    GITHUB = auto()
    SARIF = auto()


class Level(StrEnum):
    """Level of the check."""

    STRUCTURE = "structure"
    VALUES = "values"


_FORMATS = "npz, pt, safetensors, h5 or, with --unsafe-pickle, pkl"
Files = Annotated[list[Path], typer.Argument(help=f"{_FORMATS} files")]
File = Annotated[Path, typer.Argument(help=f"{_FORMATS} file")]
Unsafe = Annotated[bool, typer.Option("--unsafe-pickle", help="load pickles, which may execute anything")]
Schema = Annotated[
    str, typer.Option("--as", help="protocol or record as module:Name, or the name of one of typedbatch's own")
]
Output = Annotated[Format, typer.Option(help="format of the report")]
Sizes = Annotated[bool, typer.Option("--sizes", help="declare the sizes after the rows as numbers instead of names")]
Code = Annotated[str, typer.Argument(help="code of a report, as TB302, or of the mypy plugin, as batch-shape")]

Paths = Annotated[list[Path] | None, typer.Argument(help="files and folders; none for those that mypy's settings name")]
Python = Annotated[Path | None, typer.Option(help="python whose packages the code imports")]
Cache = Annotated[
    Path | None, typer.Option("--cache-dir", help="folder for the next run; .typedbatch_cache in the root if left out")
]
Mypy = Annotated[bool, typer.Option("--mypy", help="run mypy and its plugin, too, which know types and shapes")]
Explain = Annotated[bool, typer.Option("--explain", help="print the lines by which the program comes to a mistake")]
Watch = Annotated[bool, typer.Option("--watch", help="check again whenever a file changes, until interrupted")]
Stdio = Annotated[bool, typer.Option("--stdio", help="speak on standard input and output, which is the only way")]

app: typer.Typer = typer.Typer(
    help="Check code, and check, describe and show files of batches.", no_args_is_help=True, add_completion=False
)


@app.command("check")
def run_check(
    paths: Paths = None,
    format: Annotated[CheckFormat, typer.Option(help="format of the output")] = CheckFormat.TEXT,
    mypy: Mypy = False,
    explain: Explain = False,
    python: Python = None,
    cache: Cache = None,
    watch: Watch = False,
) -> None:
    """Check code, beside any checker or none, and print what is found.

    Exit with 0 if there is nothing, 1 if there are findings, 2 if the program cannot be checked.
    """
    given = paths or []
    while True:
        code = _check_once(format, explain, partial(check, given, mypy=mypy, python=python, cache=cache))
        if not watch:
            raise typer.Exit(code)
        before = _times(given)
        while _times(given) == before:
            time.sleep(_PAUSE)
        typer.echo(f"--- {time.strftime('%H:%M:%S')}", err=True)


def _check_once(format: CheckFormat, explain: bool, check: Callable[[], Checked]) -> int:
    try:
        checked = check()
    except SettingError as error:
        checked = Checked([], str(error))
    if checked.failure:
        typer.echo(checked.failure, err=True)
        return 2
    if checked.warnings:
        typer.echo(checked.warnings, err=True)
    formats = {"json": as_json, "github": as_github, "sarif": as_sarif}
    as_asked = formats.get(format, partial(as_text, explain=explain))
    if text := as_asked(checked.found):
        typer.echo(text)
    if format is CheckFormat.TEXT:
        count = len(checked.found)
        typer.echo("no findings" if not count else f"{count} finding{'s' if count > 1 else ''}", err=bool(count))
    return int(any(one.severity == "error" for one in checked.found))


def _times(paths: list[Path]) -> dict[str, int]:
    """Return the times at which files were changed last."""
    out = {}
    for path in paths or [Path()]:
        for file in files_in(path):
            with suppress(FileNotFoundError):
                out[str(file)] = os.stat(file).st_mtime_ns
    return out


@app.command("lsp")
def run_server(stdio: Stdio = True) -> None:
    """Serve an editor with what a run of the program knows, beside the editor's own Python server."""
    if importlib.util.find_spec("pygls") is None:
        typer.echo("typedbatch lsp needs pygls; pip install 'typedbatch[lsp]'", err=True)
        raise typer.Exit(2)
    from typedbatch._lsp.features import make_server

    server = make_server()
    server.start_io()
    raise typer.Exit(server.exit_code)


@app.command()
def validate(
    files: Files,
    schema: Schema,
    level: Annotated[
        Level, typer.Option(help="check the structure only, or also the rules on values")
    ] = Level.STRUCTURE,
    format: Output = Format.TEXT,
    unsafe_pickle: Unsafe = False,
) -> None:
    """Check files against a protocol or record. Exit with 0 if all match, 1 if any does not, 2 if any is unreadable."""
    with _or_stop():
        target = schema_named(schema)
    found: list[dict[str, Any]] = []
    blocks: list[str] = []
    notes: list[str] = []
    for path in files:
        found.append({"file": str(path), "ok": False, "error": None, "problems": []})
        try:
            batch = read(path, unsafe_pickle)
            validate_at(batch, target, f"file {path}", level.value)
            found[-1]["ok"] = True
            blocks.append(f"ok  {path}  {printable(describe(batch))}")
        except SchemaError as error:
            found[-1]["problems"] = [one.to_dict() for one in error.problems]
            blocks.append(f"FAILED  {path}\n{error}")
            for one in error.problems:
                text = f"{f'batch.{one.path}' if one.path else 'batch'}: {in_a_line(one)}\n{one.page}"
                notes.append(annotation("error", {"file": path, "title": one.code}, text))
        except TypedBatchError as error:
            found[-1]["error"] = str(error)
            blocks.append(f"UNREADABLE  {path}\n{error}")
            notes.append(annotation("error", {"file": path, "title": "unreadable"}, str(error)))
    count = sum(one["ok"] for one in found)
    summary = f"{count} of {len(found)} {'file matches' if len(found) == 1 else 'files match'}"
    lines = {"text": [*blocks, summary], "json": [json.dumps(found, indent=2)], "github": notes or [summary]}
    typer.echo("\n".join(lines[format]))
    raise typer.Exit(2 if any(one["error"] for one in found) else int(count < len(found)))


@app.command()
def infer(
    file: File,
    name: Annotated[str, typer.Option(help="name of the class")] = "Inferred",
    style: Annotated[str, typer.Option(help="protocol or record")] = "protocol",
    sizes: Sizes = False,
    unsafe_pickle: Unsafe = False,
) -> None:
    """Print a protocol or record that a file matches."""
    with _or_stop():
        typer.echo(infer_schema(read(file, unsafe_pickle), name, style, sizes=sizes), nl=False)  # type: ignore[arg-type]  # infer_schema checks style


@app.command()
def show(file: File, unsafe_pickle: Unsafe = False) -> None:
    """Show the fields of a file as a tree: dtypes, shapes, sizes, first values."""
    with _or_stop():
        batch = read(file, unsafe_pickle)
    tree = TextTree(f"{file}  {type(batch).__name__}")
    _add_fields(tree, batch)
    Console(highlight=False, markup=False).print(tree)


def _add_fields(tree: TextTree, batch: Batch) -> None:
    """Add the fields of a batch to a tree, one line each, and those of nested batches below them."""
    for name, value in batch.__dict__.items():
        kind, parts = kind_of(value), [printable(name)]
        if kind is BATCH and value.__dict__:
            _add_fields(tree.add(parts[0]), value)
            continue
        parts.append(describe(value))
        if kind in (ARRAY, TENSOR):
            with suppress(RuntimeError):  # Sparse and nested tensors have no size in bytes.
                parts.append(f"{value.nbytes:,} bytes")
            parts.append(printable(first_values(value)))
        tree.add("  ".join(parts).rstrip())


@app.command()
def protocols(mermaid: Annotated[bool, typer.Option("--mermaid", help="as a mermaid diagram")] = False) -> None:
    """Show the hierarchy of the protocols, with the fields that each one adds."""
    lines = ["classDiagram"] if mermaid else []
    classes = [cls for cls in vars(declared).values() if declared.BatchProtocol in getattr(cls, "__mro__", ())]
    for protocol in sorted(classes, key=lambda cls: (len(cls.__mro__), cls.__name__)):
        name, bases = protocol.__name__, [base for base in protocol.__bases__ if base in classes]
        # BatchProtocol itself has properties, such as shape, but declares no field.
        properties = [one for one, value in vars(protocol).items() if bases and isinstance(value, property)]
        fields = [one for one in properties if not any(hasattr(base, one) for base in bases)]
        names = [base.__name__ for base in bases]
        if mermaid:
            lines += [f"    {base} <|-- {name}" for base in names] + [f"    {name} : {field}" for field in fields]
        else:
            heading = f"{name}({', '.join(names)})" if names else name
            lines.append(f"{heading}: {', '.join(fields)}" if fields else heading)
    typer.echo("\n".join(lines))


@app.command()
def explain(code: Code) -> None:
    """Print the page of an error code, and its address."""
    pages = {path.stem.lower(): path for folder in _PAGES for path in sorted(folder.glob("[!i]*.md"))}  # not index
    word = next(iter(code.strip("[] ").lower().split()), "")
    word = _OF_MYPY.get(word, word)
    with _or_stop():
        if word not in pages:
            known = sorted(path.stem for path in pages.values())
            text = f"expected one of the codes {', '.join(known)}, got {code!r}{did_you_mean(code, known)}"
            raise SettingError(text)
    page = pages[word].read_text(encoding="utf-8")
    typer.echo(f"{page}\n{page_address(page.split()[1])}")


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Print versions and settings for a bug report."""
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    system = f"{platform.system()} {platform.machine()}"
    found = {"typedbatch": metadata.version("typedbatch"), "Python": f"{python}, {system}"}
    for name in _LIBRARIES:
        found[name] = "not installed"
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    found |= {"checking": current_level(), "mypy plugin": "mypy is not installed"}
    if found["mypy"] != "not installed":
        command = [sys.executable, "-P", "-m", "typedbatch.mypy", "--check"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = ((done.stderr or done.stdout).strip().splitlines() or ["it printed no reason"])[-1]
        found["mypy plugin"] = {
            0: "on, in the settings that mypy finds in this folder",
            1: "off in this folder; python -m typedbatch.mypy prints the line to add",
        }.get(done.returncode, f"mypy could not be run: {reason}")
    width = max(map(len, found))
    typer.echo(json.dumps(found) if as_json else "\n".join(f"{name:{width}}  {found[name]}" for name in found))


@contextmanager
def _or_stop() -> Generator[None]:
    """Exit with the error text if the block raises an error of typedbatch."""
    try:
        yield
    except TypedBatchError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
