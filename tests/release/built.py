"""The wheel and the sdist, built from what is committed."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.release.report import Wrong, run


@dataclass(frozen=True)
class Built:
    """The files that will be uploaded."""

    wheel: Path
    sdist: Path


def uncommitted(root: Path) -> list[str]:
    """Files of the work tree that HEAD has not, or not like this."""
    return [line[3:] for line in run("git", "status", "--porcelain", cwd=root).splitlines()]


def clone(root: Path, place: Path) -> Path:
    """HEAD, in a new folder, which is returned."""
    run("git", "clone", "--quiet", root, place)
    return place


def build(source: Path, out: Path) -> Built:
    """The sdist, and the wheel that is built from it, each in an environment of its own."""
    run(sys.executable, "-m", "build", "--outdir", out, source)
    return built_in(out)


def built_in(folder: Path) -> Built:
    """The two files in a folder that has no others of their kinds."""
    return Built(_only(folder, "*.whl"), _only(folder, "*.tar.gz"))


def build_wheel(source: Path, out: Path) -> Path:
    """The wheel that is built from the files themselves."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, source)
    return _only(out, "*.whl")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Wrong(f"one {pattern} was expected, and there are {[path.name for path in found]}")
    return found[0]


def same_contents(one: Path, other: Path) -> str:
    """How many files two wheels have in common, which is all.

    Raises:
        Wrong: a file is in one alone, or is different.
    """
    left, right = _contents(one), _contents(other)
    different = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    if different:
        raise Wrong("\n".join(["the wheel of the sdist has not the same files as that of the checkout:", *different]))
    return f"{len(left)} files"


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
