"""Checks of the page that PyPI will show, and of the places that state the version."""

from __future__ import annotations

import re
import sys
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

from tests.release.built import Built
from tests.release.report import Wrong, run

SITE = "https://typedbatch.readthedocs.io/en/stable/"
REPOSITORY = "https://github.com/typedbatch/typedbatch/blob/HEAD/"
PICTURES = "https://raw.githubusercontent.com/typedbatch/typedbatch/HEAD/"
_LINK = re.compile(r"\]\(([^)\s]+)")


def metadata_of(wheel: Path) -> Message:
    """Its METADATA; the payload is the page."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def renders(built: Built) -> str:
    """``twine check``, with warnings as errors."""
    run(sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist)
    return "twine check --strict passes both"


def links_lead_somewhere(page: str, root: Path) -> str:
    """Links are whole addresses, as PyPI has no other files; those of this project are of files that are there.

    Raises:
        Wrong: some are not.
    """
    links = _LINK.findall(page)
    wrong = [link for link in links if not _is_there(link, root)]
    if wrong:
        raise Wrong("\n".join(["on PyPI these lead nowhere:", *wrong]))
    return f"{len(links)} links"


def _is_there(link: str, root: Path) -> bool:
    address = link.partition("#")[0]
    if address.startswith(SITE):
        page = address.removeprefix(SITE)
        return page == "" or (root / "docs" / page).with_suffix(".md").exists()
    for start in (REPOSITORY, PICTURES):
        if address.startswith(start):
            return (root / address.removeprefix(start)).exists()
    return link.startswith(("https://", "#"))


def version_in_one_place(root: Path, version: str) -> str:
    """Where the version is set, which is one file; a tag that a page tells people to pin is that of this version.

    Raises:
        Wrong: it stands elsewhere too, or such a tag is of another version.
    """
    places = _files_with(rf"version.{{0,6}}= *.?{re.escape(version)}\b", root, "*.py", "*.toml", "*.cfg", "*.ini")
    places = [name for name in places if not name.startswith(("stubs/", "docs/examples/", "tests/"))]
    if places != ["typedbatch/__init__.py"]:
        raise Wrong(f"{version} should be set in typedbatch/__init__.py alone, and is in {places}")
    tags = set(re.findall(r"rev: (v[\w.]+)", (root / "docs" / "start" / "ci.md").read_text(encoding="utf-8")))
    if tags != {f"v{version}"}:
        raise Wrong(f"docs/start/ci.md tells people to pin {sorted(tags)}, and this is v{version}")
    return f"{version} in {places[0]}"


def _files_with(pattern: str, root: Path, *kinds: str) -> list[str]:
    found = []
    for name in run("git", "ls-files", "-z", "--", *kinds, cwd=root).split("\0")[:-1]:
        if re.search(pattern, (root / name).read_text(encoding="utf-8")):
            found.append(name)
    return found
