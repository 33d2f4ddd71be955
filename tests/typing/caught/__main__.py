"""``python -m tests.typing.caught``: print docs/caught.md."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.typing.caught.corpus import IDIOMS
from tests.typing.caught.measure import measure
from tests.typing.caught.page import page

with tempfile.TemporaryDirectory() as folder:
    programs = Path(folder, "programs")
    programs.mkdir()
    print(page(measure(IDIOMS, programs, Path(folder, "cache"))))
