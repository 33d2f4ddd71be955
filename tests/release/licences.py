"""The licences of what the extras bring, from its metadata: ``python -m tests.release.licences`` writes a page."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.release.report import Wrong

NOT_FOR_USERS = ("demo", "dev", "docs", "look", "release")
COPYLEFT = re.compile(r"GPL|MPL|EPL|EUPL|CDDL|copyleft|Mozilla Public|General Public", re.IGNORECASE)
PROPRIETARY = re.compile(r"proprietary|LicenseRef", re.IGNORECASE)
UNKNOWN = "unknown"
MISSING = "not installed here"
_LONG = 60

PAGE = """\
# Licences

typedbatch is under the MIT licence. These are the packages that it and its extras bring, and what these need in turn,
by the licence that their own metadata names. Made by `make licences-docs`, of what was installed there: Python
{python}, {system}.

The extras are {extras}.

{summary}

{table}
torch from PyPI brings, on Linux, CUDA libraries under NVIDIA's own licence (packages called `nvidia-*`). They are not
in the table where a build of torch without them was installed.
"""


@dataclass(frozen=True)
class Package:
    """One that is brought.

    Attributes:
        name: as its metadata writes it.
        version: what is installed, or empty.
        licence: in the words of its metadata; ``UNKNOWN`` where it says nothing, ``MISSING`` where it is not installed.
        extras: those that bring it; empty for what the package itself needs.
    """

    name: str
    version: str
    licence: str
    extras: tuple[str, ...]

    @property
    def stands_out(self) -> str:
        """Why somebody should look at it, or nothing."""
        if self.licence in (UNKNOWN, MISSING):
            return self.licence
        if PROPRIETARY.search(self.licence):
            return "proprietary"
        return "copyleft" if COPYLEFT.search(self.licence) else ""


def extras(root: str = "typedbatch") -> list[str]:
    """Return the extras that users ask for, without ``all``, of which every part is an extra too."""
    offered = metadata.metadata(root).get_all("Provides-Extra") or []
    return sorted({*offered} - {*NOT_FOR_USERS, "all"})


def packages(root: str = "typedbatch") -> list[Package]:
    """Return all that is brought by extras which users ask for, by name."""
    brought = {extra: set(needed(root, [extra])) for extra in extras(root)}
    always = set(needed(root))
    found = []
    for name in sorted(always.union(*brought.values())):
        by = () if name in always else tuple(extra for extra in brought if name in brought[extra])
        found.append(_package(name, by))
    return found


def needed(root: str, extras: Iterable[str] = ()) -> Iterator[str]:
    """The names of all that a package needs here, of what that needs, and so on; without the package."""
    seen: set[tuple[str, str]] = set()
    waiting = [(_plain(root), extra) for extra in ("", *extras)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        for requirement in _requirements(*at):
            name = _plain(requirement.name)
            waiting += [(name, extra) for extra in ("", *requirement.extras)]
    yield from {name for name, _ in seen} - {_plain(root)}


def _requirements(name: str, extra: str) -> list[Requirement]:
    """Return the requirements of a distribution on this platform under an extra; empty if it is not installed."""
    try:
        written = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    wanted = [Requirement(line) for line in written]
    return [need for need in wanted if need.marker is None or need.marker.evaluate({"extra": extra})]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _package(name: str, extras: tuple[str, ...]) -> Package:
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return Package(name, "", MISSING, extras)
    return Package(found["Name"], found["Version"], licence_of(found), extras)


def licence_of(found: metadata.PackageMetadata) -> str:
    """From License-Expression, classifiers or License, in this order; a whole text is cut to its first line."""
    expression = found.get("License-Expression")
    if expression:
        return expression
    classifiers = found.get_all("Classifier") or []
    classified = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    classified = [name for name in classified if name != "OSI Approved"]
    if classified:
        return ", ".join(classified)
    lines = (found.get("License") or "").strip().splitlines()
    return lines[0].strip()[:_LONG] if lines and lines[0].strip().upper() != "UNKNOWN" else UNKNOWN


def summary(found: list[Package]) -> str:
    """Return, in one sentence, what stands out."""
    outstanding = [package for package in found if package.stands_out]
    if not outstanding:
        return f"Of {len(found)} packages none is copyleft or proprietary, and each says its licence."
    named = ", ".join(f"{package.name} ({package.stands_out})" for package in outstanding)
    return f"Of {len(found)} packages these stand out, in bold below: {named}."


def table(found: list[Package]) -> str:
    """Return the packages by licence as Markdown, the licence of the most packages first."""
    by_licence: dict[str, list[str]] = {}
    for package in found:
        by_licence.setdefault(package.licence.replace("|", "/"), []).append(_named(package))
    rows = sorted(by_licence.items(), key=lambda row: (-len(row[1]), row[0]))
    lines = ["| licence | packages |", "|---|---|", *(f"| {licence} | {', '.join(names)} |" for licence, names in rows)]
    return "\n".join(lines) + "\n"


def _named(package: Package) -> str:
    """Return the name of a package; if it stands out, in bold, with its version and what brings it."""
    if not package.stands_out:
        return package.name
    return f"**{package.name}** {package.version} (brought by {_code(package.extras) or 'typedbatch itself'})"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    """Return the text of docs/evidence/licences.md."""
    found = packages()
    here = {"python": ".".join(platform.python_version_tuple()[:2]), "system": platform.system()}
    return PAGE.format(extras=_code(extras()), summary=summary(found), table=table(found), **here)


def are_named(root: Path) -> str:
    """Return the licenses that stand out, which docs/evidence/licences.md shows in bold.

    Raises:
        Wrong: something is not there.
    """
    shown = (root / "docs" / "evidence" / "licences.md").read_text(encoding="utf-8")
    bold = set(re.findall(r"\*\*(\S+)\*\*", shown))
    found = [package for package in packages() if package.stands_out and package.licence != MISSING]
    new = [f"{package.name}: {package.licence}" for package in found if package.name not in bold]
    if new:
        raise Wrong("\n".join(["docs/evidence/licences.md lacks these; look at them, and make licences-docs:", *new]))
    return ", ".join(f"{package.name} ({package.stands_out})" for package in found) or "nothing stands out"


if __name__ == "__main__":
    print(page(), end="")
