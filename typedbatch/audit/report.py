"""The report of an audit: findings and notes with their places in the user's code, and what was read and learned."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from os.path import basename, dirname, sep
from types import FrameType
from typing import Literal, TypeAlias

import torch

from typedbatch._report import page_address

AuditCode: TypeAlias = Literal[
    "TB501 wrong-ratio",
    "TB502 all-rows",
    "TB503 other-rows",
    "TB504 wrong-gradient",
    "TB505 unread-field",
    "TB506 wrong-network",
    "TB507 wrong-weight",
    "TB508 wrong-target",
    "TB509 stale-gradient",
    "TB510 suspect-values",
    "TB511 replay-differs",
    "TB512 broken-stage",
    "TB513 check-failed",
    "TB514 other-formula",
]
"""Code of a finding; docs/errors has a page for each."""
_LIBRARIES = (
    dirname(dirname(__file__)) + sep,
    dirname(torch.__file__) + sep,
    dirname(dirname(torch.__file__)) + sep + "jaxtyping" + sep,
    dirname(dirname(torch.__file__)) + sep + "numpy" + sep,
    "<frozen",
    "<string>",
)
_STDLIB = (sep + "contextlib.py", sep + "functools.py", sep + "threading.py")


@dataclass(frozen=True, repr=False)
class Finding:
    """A law of an update that does not hold.

    Attributes:
        code: Stable code with its name; ``typedbatch explain TB501`` prints its page.
        place: File and line of the user's code, ``"ppo.py:147"``; empty if there is no single one.
        text: Description of what was seen, what was expected and what to look at.
        is_certain: Whether no right program does so. Findings that are not certain are notes.
    """

    code: AuditCode
    place: str
    text: str
    is_certain: bool = True

    @property
    def page(self) -> str:
        """Address of the page that explains the code."""
        return page_address(self.code)

    def __repr__(self) -> str:
        place = f"{self.place} " if self.place else ""
        return f"[{self.code}] {place}{self.text}"


@dataclass(frozen=True)
class LossTerm:
    """A summand of a loss.

    Attributes:
        fields: Names of the fields that it was computed from.
        parameters: Names of the modules and parameters that it has gradients for.
    """

    fields: frozenset[str]
    parameters: frozenset[str]


class Report:
    """The results of an audit. ``str(report)`` is readable; ``assert not report.findings`` is a test."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        """Laws that do not hold."""
        self.notes: list[Finding] = []
        """Observations that a right program may have too."""
        self.reads: dict[str, set[str]] = {}
        """Names of the fields read, by class of batch and function, as ``reads["Rollout in process"]``."""
        self.loss_reads: dict[str, set[str]] = {}
        """Names of the fields that each loss was computed from, by the place of its ``backward``."""
        self.loss_terms: dict[str, list[LossTerm]] = {}
        """Summands of each loss, by the place of its ``backward``."""

    def __repr__(self) -> str:
        return str(self)

    def add(self, finding: Finding) -> None:
        """Add a finding or note, unless there is one of the same code at the same place."""
        known = self.findings if finding.is_certain else self.notes
        is_new = all((other.code, other.place) != (finding.code, finding.place) for other in known)
        if is_new or (not finding.place and finding not in known):
            known.append(finding)

    def merge(self, other: Report) -> None:
        """Add the findings, notes and tables of another report."""
        for finding in (*other.findings, *other.notes):
            self.add(finding)
        for mine, others in ((self.reads, other.reads), (self.loss_reads, other.loss_reads)):
            for place, names in others.items():
                mine.setdefault(place, set()).update(names)
        for place, terms in other.loss_terms.items():
            self.loss_terms.setdefault(place, terms)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings] or ["no findings"]
        lines += [f"note: {note}" for note in self.notes]
        for place, terms in self.loss_terms.items():
            lines.append(f"loss at {place}")
            for term in terms:
                fields, parameters = ", ".join(sorted(term.fields)), ", ".join(sorted(term.parameters))
                lines.append(f"  reads {fields or 'no field'}, has gradients for {parameters or 'nothing'}")
        lines += [f"{place} reads {', '.join(sorted(names))}" for place, names in self.reads.items()]
        return "\n".join(lines)


def user_frame() -> FrameType | None:
    """Return the innermost frame that is not of typedbatch, torch or numpy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and not file.endswith(_STDLIB):
            return frame
        frame = frame.f_back
    return None


def here() -> str:
    """Return the file and line of the user's code that runs: ``"ppo.py:147"``."""
    frame = user_frame()
    return f"{basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def function_here() -> str:
    """Return the name of the user's function that runs."""
    frame = user_frame()
    return frame.f_code.co_name if frame is not None else ""
