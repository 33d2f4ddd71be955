"""The most modules and lines of each folder of the package, and of the tests; ``tests/test_imports.py`` compares them.

Each step lowers them. A commit that raises one says why.
"""

from __future__ import annotations

BUDGET = {
    "_core": (12, 1860),
    "_lsp": (26, 2940),
    "_ops": (20, 4230),
    "_program": (58, 14600),
    "_validation": (6, 1100),
    "audit": (25, 6670),
    "bridges": (27, 3600),
    "buffers": (20, 5580),
    "cli": (8, 1100),
    "files": (6, 1420),
    "mypy": (30, 3860),
    "posttraining": (13, 2350),
    "rows": (6, 840),
    "sample_batches": (6, 1280),
    "schema": (18, 3560),
    "testing": (5, 630),
    "training": (15, 3130),
    "top": (22, 4560),
    "tests": (852, 112200),
}
"""Numbers of modules and lines; ``top`` is all modules outside of folders, ``tests`` all tests and programs in them."""

WORDS = {".": 31400, "start": 3700, "evidence": 12500}
"""Largest numbers of words of the pages in folders of docs, code included, without those about the project itself."""
