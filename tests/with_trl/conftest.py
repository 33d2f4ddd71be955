"""These tests need TRL, which is in verl's environment; ``make check`` runs them there."""

import sys
from importlib.util import find_spec
from pathlib import Path

collect_ignore_glob = ["test_*.py"] if find_spec("trl") is None else []
sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples" / "trl"))
