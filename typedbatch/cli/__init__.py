"""The command ``typedbatch``, which needs the extra ``cli``, and its check of programs, which needs mypy alone."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or exit with an error text if typer or rich is not installed."""
    try:
        from typedbatch.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit("the command typedbatch needs typer and rich; pip install 'typedbatch[cli]'")
    app()
