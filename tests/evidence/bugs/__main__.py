"""``python -m tests.evidence.bugs > docs/evidence/bugs.md``: the page of these programs."""

from __future__ import annotations

from tests.evidence.bugs.programs import PROGRAMS, outcome
from tests.evidence.silent.page import tables
from tests.evidence.silent.programs import programs

HEAD = """# Bugs of post-training, and what catches them

Bugs that were reported in post-training projects, each as a small program in `tests/evidence/bugs`: first with
dicts, as it went wrong, then with typedbatch. *Checker* is a type checker in CI, *edge* is `validate` or `@checked`,
*operation* one that refuses, or keeps together what belongs together, *rule* a rule on values (level `values`).
{caught} of {all} are caught; in the others, nothing in the data is wrong. `make bugs-docs` runs all of them and writes
this page.

| | bug | caught by | error |
|---|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    rows = []
    for number, program in enumerate(PROGRAMS, 1):
        bug = f"[{program.PROJECT}]({program.LINK}): {(program.__doc__ or '').strip()}"
        rows.append(f"| {number} | {bug} | {program.CAUGHT_BY or 'nothing'} | {outcome(program)} |")
    caught = sum(bool(program.CAUGHT_BY) for program in PROGRAMS)
    return HEAD.format(caught=caught, all=len(PROGRAMS)) + "\n".join(rows) + "\n"


SILENT = """
## What runs wrong in silence

Mistakes in updates and stages that are right by name, dtype and shape, in
`tests/evidence/silent/programs/posttraining`. They were run as [audits](../audit.md) are; [what runs wrong in
silence](silent.md) says how, and has the same for reinforcement learning. The audit has no findings in the right
programs beside them, nor in {right} more that are right in an unusual way, such as CISPO, losses by a constant length,
or packed sequences. `make bugs-docs` runs these, too.

"""


if __name__ == "__main__":
    print(page() + SILENT.format(right=len(programs("posttraining", "right"))) + tables("posttraining"), end="")
