"""``python -m tests.evidence.silent > docs/evidence/silent.md``: the page of these programs."""

from __future__ import annotations

from tests.evidence.silent.page import tables
from tests.evidence.silent.programs import programs

HEAD = """# What runs wrong in silence, program by program

Mistakes of reinforcement learning that raise nothing, and print plausible numbers. Each is a pair of programs in
`tests/evidence/silent/programs/rl`, wrong and right, whose docstring says what follows from the mistake. They were run
as [audits](../audit.md) are: two updates under a trace, and a third with replays. The audit has no findings in the
right programs, nor in {right} more that are right in an unusual way, such as residual gradients, V-trace or losses over
all pairs of rows. *Note* is a finding that is not certain, and that the right program does not have; *plugin* is an
error of mypy with the plugin. [Bugs](bugs.md#what-runs-wrong-in-silence) has the same for post-training. `make
silent-docs` runs all of them and writes this page.

What is not found is mostly of two kinds: formulas (a power, which of two constants), and data that was wrong before the
update got it.

## Mistakes

"""

if __name__ == "__main__":
    print(HEAD.format(right=len(programs("rl", "right"))) + tables("rl"), end="")
