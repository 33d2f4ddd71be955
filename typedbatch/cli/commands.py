"""Subcommands: ``validate``, ``infer``, ``show``, ``protocols``, ``explain`` and ``doctor``."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.tree import Tree as TextTree

from typedbatch._level import Level
from typedbatch._ops.preview import first_values
from typedbatch._report import page_address, printable
from typedbatch._tree.kinds import ARRAY, BATCH, TENSOR, describe, kind_of
from typedbatch._validation.validate import validate_at
from typedbatch.batch import Batch
from typedbatch.cli.doctor import examine
from typedbatch.cli.loading import read
from typedbatch.cli.output import FAILED, MATCHES, UNREADABLE, Checked, Format, Outcome, as_text, linked
from typedbatch.cli.pages import page_of
from typedbatch.cli.schemas import hierarchy, schema_named
from typedbatch.errors import SchemaError, TypedBatchError
from typedbatch.infer import infer_schema

Files = Annotated[list[Path], typer.Argument(help="npz, pt, safetensors, h5 or, with --unsafe-pickle, pkl files")]
File = Annotated[Path, typer.Argument(help="an npz, pt, safetensors, h5 or, with --unsafe-pickle, pkl file")]
Unsafe = Annotated[bool, typer.Option("--unsafe-pickle", help="load pickles, which may execute anything")]

app: typer.Typer = typer.Typer(
    help="Check, describe and show files of batches.", no_args_is_help=True, add_completion=False
)


@app.command()
def validate(
    files: Files,
    schema: Annotated[
        str, typer.Option("--as", help="protocol or record as module:Name, or the name of one of typedbatch's own")
    ],
    level: Annotated[
        Checked, typer.Option(help="check the structure only, or also the rules on values")
    ] = Checked.STRUCTURE,
    format: Annotated[Format, typer.Option(help="format of the report")] = Format.TEXT,
    unsafe_pickle: Unsafe = False,
) -> None:
    """Check files against a protocol or record. Exit with 0 if all match, 1 if any does not, 2 if any is unreadable."""
    with _or_stop():
        target = schema_named(schema)
    outcomes = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=len(files) == 1 or not console.is_terminal) as progress:
        for path in progress.track(files, description="checking"):
            outcomes.append(_outcome(path, target, level.value, unsafe_pickle))
    Console(highlight=False).print(linked(as_text(outcomes, format)), soft_wrap=True)
    raise typer.Exit(max(outcome.status for outcome in outcomes))


def _outcome(path: Path, target: Any, level: Level, unsafe_pickle: bool) -> Outcome:
    try:
        batch = read(path, unsafe_pickle)
    except TypedBatchError as error:
        return Outcome(str(path), UNREADABLE, str(error), [])
    try:
        validate_at(batch, target, f"file {path}", level)
    except SchemaError as error:
        return Outcome(str(path), FAILED, str(error), list(error.problems))
    return Outcome(str(path), MATCHES, printable(describe(batch)), [])


@app.command()
def infer(
    file: File,
    name: Annotated[str, typer.Option(help="name of the class")] = "Inferred",
    style: Annotated[str, typer.Option(help="protocol or record")] = "protocol",
    sizes: Annotated[
        bool, typer.Option("--sizes", help="declare the sizes after the rows as numbers instead of names")
    ] = False,
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
def protocols(
    mermaid: Annotated[bool, typer.Option("--mermaid", help="as a mermaid diagram")] = False,
) -> None:
    """Show the hierarchy of the protocols, with the fields that each one adds."""
    lines = ["classDiagram"] if mermaid else []
    for name, bases, fields in hierarchy():
        if mermaid:
            lines += [f"    {base} <|-- {name}" for base in bases] + [f"    {name} : {field}" for field in fields]
        else:
            heading = f"{name}({', '.join(bases)})" if bases else name
            lines.append(f"{heading}: {', '.join(fields)}" if fields else heading)
    typer.echo("\n".join(lines))


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="code of a report, as TB302, or of the mypy plugin, as batch-shape")],
) -> None:
    """Print the page of an error code, and its address."""
    with _or_stop():
        page = page_of(code)
    typer.echo(f"{page}\n{page_address(page.split()[1])}")


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Print versions and settings for a bug report."""
    found = examine()
    width = max(map(len, found))
    lines = [f"{name:{width}}  {value}" for name, value in found.items()]
    typer.echo(json.dumps(found) if as_json else "\n".join(lines))


@contextmanager
def _or_stop() -> Generator[None]:
    """Exit with the error text if the block raises an error of typedbatch."""
    try:
        yield
    except TypedBatchError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNREADABLE) from None
