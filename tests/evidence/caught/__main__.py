"""``python -m tests.evidence.caught``: print docs/evidence/caught.md."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.evidence.caught.corpus import IDIOMS
from tests.evidence.caught.measure import measure
from tests.evidence.caught.page import page

with tempfile.TemporaryDirectory() as folder:
    programs = Path(folder, "programs")
    programs.mkdir()
    print(page(measure(IDIOMS, programs, Path(folder, "cache"))))
