"""Subcommand ``lsp``: the language server, which editors start."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

Stdio = Annotated[bool, typer.Option("--stdio", help="speak on standard input and output, which is the only way")]


def run_server(stdio: Stdio = True) -> None:
    """Serve an editor with what the mypy plugin knows, beside the editor's own Python server, until it says goodbye."""
    missing = [name for name in ("pygls", "mypy") if importlib.util.find_spec(name) is None]
    if missing:
        typer.echo(f"typedbatch lsp needs {' and '.join(missing)}; pip install 'typedbatch[lsp]'", err=True)
        raise typer.Exit(2)
    from typedbatch._lsp.server import make_server

    server = make_server()
    server.start_io()
    raise typer.Exit(server.exit_code)
