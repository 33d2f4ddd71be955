"""The page docs/evidence/caught.md."""

from __future__ import annotations

import platform
from importlib.metadata import version

from tests.evidence.caught.corpus import IDIOMS, MISTAKES, fingerprint
from tests.evidence.caught.measure import CATCHERS, NAMES, PLUGIN, RUN, Findings, kind, takes_part

HEAD = """\
# What is caught, by whom

This page is what `make caught-docs` printed, nothing else.

{versions}; corpus {fingerprint}

{mistakes} mistakes that training code is made of, each in one line of one function, written in {idioms} idioms. The
programs are in `tests/evidence/caught/programs`; a comment below each wrong line makes the right version of the
function. Every right version was run, and raises nothing. Where TensorDict has two forms, the programs use the one that
checkers understand better: `Rollout.cat`, not `torch.cat`.

## The table

* *all*: all {checkers} checkers report the wrong line, in the settings of `tests/typing/checkers.py`: strict wherever
  there is such a mode. A report that the right version gets as well, but for the names in it, does not count.
* *a name*: that checker does. *not ty*: all but ty.
* *plugin*: mypy does, with `plugins = typedbatch.mypy`, and would not without. In the last column it alone is asked.
* *run*: the function raises when it is called: at once or, for some, only where the value is used.
* **nobody**: no checker reports it, and it runs.
* *-*: the idiom cannot express the mistake.
"""

READING = """\
* Tianshou's protocols catch what they declare: stages, and the types of fields. Their `__getattr__` lets any other name
  pass, and `cast` whatever it is given.
* `TensorClass` comes closest, and is ahead in some rows: it also refuses a wrong length at once. It holds tensors only.
* `TypedTensorDict` is much better understood by ty and zuban than by the others. Where pyright does report a misspelt
  read of it, it says that the type is unknown.
* The plugin checks `extend` whole, which other checkers do not. A field that is one row short is found by `validate`.
* pyright's false reports are about unknown types: rules of its strict mode alone.
* The mistakes were chosen, and the programs written, by the authors of typedbatch. Each counts once, however often
  people make it.
"""


def page(findings: dict[str, Findings]) -> str:
    """All of it."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("tianshou", "tensordict", "numpy", "torch", *NAMES))
    return "\n".join(
        [
            HEAD.format(
                versions=f"Python {platform.python_version()}, {versions}",
                fingerprint=fingerprint(),
                mistakes=len(MISTAKES),
                idioms=len(IDIOMS),
                checkers=len(NAMES),
            ),
            *_table(findings),
            "\nWhy some are not expressed:\n",
            *_cannot(findings),
            "\n## In numbers\n\nMistakes caught, of those that the idiom can express, and right functions reported.\n",
            *_header("idiom", "mistakes", *CATCHERS),
            *(numbers(idiom, found) for idiom, found in findings.items()),
            "\n## Reading it\n",
            READING,
            "## Right functions that are reported\n",
            *_false(findings),
        ]
    )


def cells(findings: Findings) -> dict[str, str]:
    """An idiom's column of the table."""
    return {mistake: _cell(findings.caught.get(mistake)) for mistake in MISTAKES}


def numbers(idiom: str, findings: Findings) -> str:
    """An idiom's row of the table of numbers."""
    counts = [
        f"{findings.count(name)}{_false_count(name, findings)}" if takes_part(name, idiom) else "-" for name in CATCHERS
    ]
    return _row(IDIOMS[idiom], str(len(findings.caught)), *counts)


def _cell(catchers: set[str] | None) -> str:
    if catchers is None:
        return "-"
    who = [name for name in NAMES if name in catchers]
    lacking = [name for name in NAMES if name not in catchers]
    if who and len(lacking) <= 2:
        who = [f"not {', '.join(lacking)}"] if lacking else ["all"]
    if PLUGIN in catchers and "mypy" not in catchers:
        who.append(PLUGIN)
    return "; ".join(filter(None, [", ".join(who), RUN if RUN in catchers else ""])) or "**nobody**"


def _false_count(name: str, findings: Findings) -> str:
    count = sum(name in reports for reports in findings.false.values())
    return f", {count} false" if count else ""


def _table(findings: dict[str, Findings]) -> list[str]:
    columns = [cells(found) for found in findings.values()]
    rows = [_row(what, *(column[mistake] for column in columns)) for mistake, what in MISTAKES.items()]
    return [*_header("mistake", *(IDIOMS[idiom] for idiom in findings)), *rows]


def _cannot(findings: dict[str, Findings]) -> list[str]:
    reasons = {IDIOMS[idiom]: "; ".join(dict.fromkeys(found.cannot.values())) for idiom, found in findings.items()}
    return [f"* {idiom}: {why}." for idiom, why in reasons.items() if why]


def _false(findings: dict[str, Findings]) -> list[str]:
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for idiom, ours in findings.items():
        for function, reports in ours.false.items():
            said = next(iter(reports.values()))
            found.setdefault((IDIOMS[idiom], ", ".join(reports), kind(said)), []).append((function, said))
    rows = []
    for (idiom, by, _), those in found.items():
        lines = those[0][1].splitlines()
        message = " ".join(dict.fromkeys([lines[0], lines[-1]]))  # the last line is the rule, where there is one
        rows.append(_row(idiom, ", ".join(f"`{function}`" for function, _ in those), by, message))
    return [*_header("idiom", "functions", "reported by", "what the first of them says"), *rows]


def _header(*titles: str) -> list[str]:
    return [_row(*titles), _row(*("---" for _ in titles))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.strip() for cell in cells)} |"
