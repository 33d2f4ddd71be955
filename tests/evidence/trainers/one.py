"""``python -m tests.evidence.trainers.one NAME CHECKOUT``: what audits say of one trainer, in this process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

MISSING = 3
"""Exit status for a package that is not installed."""


def main(name: str, checkout: str) -> int:
    """Print the findings and notes of each audit of a trainer."""
    driver = importlib.import_module(f"tests.evidence.trainers.{name}")
    try:
        for title, report in driver.reports(Path(checkout)):
            print(f"  {title}: {len(report.findings)} findings, {len(report.notes)} notes")
            for finding in report.findings:
                print(f"    finding {finding}")
            for note in report.notes:
                print(f"    note {note}")
    except ModuleNotFoundError as error:
        print(f"  not run: {error}")
        return MISSING
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
