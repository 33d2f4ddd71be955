"""``python -m tests.evidence.editor.measure``: print docs/evidence/editors.md."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import platform
import statistics
import tempfile
import textwrap
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from tests.evidence.editor.exceptions import EXCEPTIONS
from tests.evidence.editor.questions import (
    DETAILS,
    FIELDS,
    OFFERS,
    VALUES,
    Question,
    begun_keyword_not_offered,
    fields_of,
    keywords_not_ahead,
    later_keywords_not_offered,
    misplaced,
    offers,
    undocumented_hovers,
    undocumented_offers,
    unsigned,
    untyped_hovers,
    untyped_offers,
)
from tests.evidence.editor.servers import CURSOR, SERVERS, Editor, Offer, Server

STARTS: Final = 3
EDITS: Final = 5

_IMPORT: Final = "from typedbatch import RolloutBatch\n"
PROGRAMS: Final = {
    "numpy": f"{_IMPORT}\n\ndef use(batch: RolloutBatch):\n",
    "torch": f"from torch import Tensor\n{_IMPORT}\n\ndef use(batch: RolloutBatch[Tensor]):\n",
}
LOOKED_AT: Final = ("protocol parameter", "record", "own record", "extended")
COLUMNS: Final[Mapping[str, tuple[Question, ...]]] = {
    "type beside the offer": (untyped_offers,),
    "docstring beside the offer": (undocumented_offers,),
    "type on hover": (untyped_hovers,),
    "docstring on hover": (undocumented_hovers,),
    "keywords": (keywords_not_ahead, later_keywords_not_offered, begun_keyword_not_offered),
    "signature": (unsigned,),
    "definition": (misplaced,),
}

HEAD: Final = """\
# In editors

This page is what `python -m tests.evidence.editor.measure` printed, nothing else. `tests/evidence/editor` asks the
same in each run of the tests, less the times.

Five language servers, as editors run them, and jedi, which is a library, were asked about programs that end in `batch.`
or `RolloutBatch(`. {versions}.

## What is offered

Behind the dot of {values} kinds of values ({names}) all fields are offered, but for what is listed below.

The numbers are the places of the fields among all that is offered, in the order in which editors show it. ty, pyrefly,
zuban and jedi sort by name. pyright and basedpyright put first what the class itself declares. *Others* are the other
public names that are offered, for a protocol and for a record; editors narrow them down as one types.
"""

DETAIL = """
## What is said of a field

*Docstring* means all of it, with the shape. *Keywords*: inside `RolloutBatch(` they come before everything else, those
that are not there yet are offered behind others, and `te` offers `terminated`. *Definition*: it is the line of the
field's declaration. *Partly*: for some kinds of values, see below.
"""

MISSING = """
## What is not there

`tests/evidence/editor/exceptions.py` lists these, and a test fails if a server no longer needs its exception.
"""

TIMES = """
## How long it takes

Milliseconds until the fields of a record are there, in a program that imports typedbatch alone (*numpy*), or torch as
well. *First*: the server is started, the file opened, the question asked; for jedi, it is imported and its cache is
empty. Median, least and most of {starts} starts; the files of all packages had been read before. *Repeat*: after an
edit, median of {edits}. {machine}
"""


class Times(NamedTuple):
    """Seconds until the first answer, and until each of the next ones."""

    first: float
    repeats: tuple[float, ...]


def main() -> str:
    """The page."""
    machine = _machine()
    asked = {name: answers(server) for name, server in SERVERS.items()}
    return "\n".join(
        [
            _wrap(HEAD.format(versions=_versions(), values=len(VALUES), names=", ".join(VALUES))) + "\n",
            *_table(["", *LOOKED_AT, "others"], ((name, *row) for name, (row, _) in asked.items())),
            DETAIL,
            *_table(["", *COLUMNS], ((name, *row) for name, (_, row) in asked.items())),
            MISSING,
            *missing(),
            TIMES.format(starts=STARTS, edits=STARTS * EDITS, machine=machine),
            *_table(
                ["", *(f"{kind}, {program}" for program in PROGRAMS for kind in ("first", "repeat"))],
                ((name, *(cell for program in PROGRAMS.values() for cell in times(name, program))) for name in SERVERS),
            ),
        ]
    )


@contextlib.contextmanager
def session(server: Server) -> Iterator[Editor]:
    """A fresh session, in a workspace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        editor = server.start(Path(folder).resolve())
        try:
            yield editor
        finally:
            editor.close()


def answers(server: Server) -> tuple[list[str], list[str]]:
    """A server's row in the first table, and in the second."""
    with session(server) as editor:
        found = {value: offers(editor, value) for value in LOOKED_AT}
        others = [_count_others(value, found[value]) for value in ("protocol parameter", "record")]
        first = [*(_places(value, offered) for value, offered in found.items()), "; ".join(map(str, others))]
        return first, [_verdict(editor, questions) for questions in COLUMNS.values()]


def _places(value: str, offered: list[Offer]) -> str:
    """Where the fields are, as ``1-5, 9, 12``."""
    names = [offer.name for offer in offered]
    places = sorted(names.index(field) + 1 for field in fields_of(value) if field in names)
    runs = [list(run) for _, run in itertools.groupby(places, lambda place: place - places.index(place))]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _count_others(value: str, offered: list[Offer]) -> int:
    return sum(offer.name[0] != "_" and offer.name not in fields_of(value) for offer in offered)


def _verdict(editor: Editor, questions: tuple[Question, ...]) -> str:
    amiss = [question(editor, about) for question in questions for about in _about(question)]
    return "partly" if any(amiss) and not all(amiss) else "no" if any(amiss) else "yes"


def _about(question: Question) -> Collection[str]:
    return {**OFFERS, **DETAILS}[question]


def missing() -> list[str]:
    """The exceptions: one line for each reason."""
    lines: dict[str, dict[str, dict[str, None]]] = {}
    for server, questions in EXCEPTIONS.items():
        for known in questions.values():
            for about, (_, reason) in known.items():
                lines.setdefault(reason, {}).setdefault(server, {})[about] = None
    return [
        _wrap(f"* {', '.join(servers)}: {reason} ({_which(next(iter(servers.values())))}).")
        for reason, servers in lines.items()
    ]


def _which(about: Collection[str]) -> str:
    return "all kinds of values" if len(about) == len(VALUES) else ", ".join(about)


def times(server: str, program: str) -> list[str]:
    """First and repeat, each start in a process of its own, so that nothing is left of the one before."""
    measured = []
    for _ in range(STARTS + 1):  # the first one has the files read
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            measured.append(pool.submit(measure, server, program).result())
    _, *kept = measured
    repeats = [seconds for one in kept for seconds in one.repeats]
    firsts = [one.first for one in kept]
    spread = f"{_ms(statistics.median(firsts))} ({_ms(min(firsts))}-{_ms(max(firsts))})"
    return [spread, _ms(statistics.median(repeats))]


def measure(server: str, program: str) -> Times:
    """One start.

    Raises:
        RuntimeError: a field is missing from an answer, so that its time would mean nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        ticks = [time.perf_counter()]
        editor = SERVERS[server].start(Path(folder).resolve())
        try:
            for edit in range(EDITS + 1):
                lines = "".join(f"    x{number} = batch.rew\n" for number in range(edit))
                names = {offer.name for offer in editor.complete(f"{program}{lines}    batch.{CURSOR}\n")}
                ticks.append(time.perf_counter())
                if not names.issuperset(FIELDS):
                    raise RuntimeError(f"{server} offers {sorted(names)}")
        finally:
            editor.close()
    first, *repeats = (after - before for before, after in itertools.pairwise(ticks))
    return Times(first, tuple(repeats))


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:.0f}" if milliseconds >= 10 else f"{milliseconds:.1f}"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(titles)
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _versions() -> str:
    servers = [f"{name} {server.version}" for name, server in SERVERS.items()]
    packages = [f"{name} {version(name)}" for name in ("numpy", "torch")]
    return f"Python {platform.python_version()}, {', '.join([*servers, *packages])}"


def _machine() -> str:
    """It is asked before the times are taken, and so tells of other work."""
    return f"{platform.system()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} when the page was begun."


def _wrap(text: str) -> str:
    """Paragraphs of at most 120 characters a line."""
    return "\n\n".join(
        part if part.startswith("#") else textwrap.fill(part, 119, subsequent_indent="  " * part.startswith("* "))
        for part in text.strip().split("\n\n")
    )


if __name__ == "__main__":
    print(main())
