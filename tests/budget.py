"""The most modules and lines of each folder of the package, and of the tests; ``tests/test_imports.py`` compares them.

Each step lowers them. A commit that raises one says why.
"""

from __future__ import annotations

BUDGET = {
    "_core": (12, 1990),
    "_lsp": (21, 2830),
    "_ops": (21, 4510),
    "_validation": (6, 1140),
    "audit": (18, 5220),
    "bridges": (28, 3820),
    "buffers": (18, 5870),
    "cli": (7, 1070),
    "files": (6, 1620),
    "mypy": (85, 15950),
    "posttraining": (11, 1920),
    "rows": (6, 810),
    "sample_batches": (6, 1350),
    "schema": (20, 3770),
    "testing": (6, 680),
    "training": (15, 3160),
    "top": (23, 4400),
    "tests": (753, 108700),
}
"""Numbers of modules and lines; ``top`` is all modules outside of folders, ``tests`` all tests and programs in them."""
