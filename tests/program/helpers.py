"""Programs in a folder, and what a run finds in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typedbatch._program.report import Finding
from typedbatch._program.run import run
from typedbatch._program.source import files_in, programs_of


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found_in(folder: Path) -> list[Finding]:
    """Return what runs find in the programs of a folder."""
    return [one for program in programs_of(files_in(folder)) for one in run(program).findings]


def found(folder: Path, text: str, **files: str) -> list[str]:
    """Return what is found in a module and others beside it, as lines and texts."""
    write(folder, {"a.py": text, **{f"{name}.py": content for name, content in files.items()}})
    return [f"{one.path.stem}:{one.line}: {one.message}" for one in found_in(folder)]
