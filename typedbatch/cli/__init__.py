"""The command ``typedbatch``. Needs the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say what it needs."""
    try:
        from typedbatch.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit("the command typedbatch needs typer and rich; pip install 'typedbatch[cli]'")
    app()
