"""Findings in a project, of which mypy renews only those that an edit may have changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from typedbatch.cli.diagnostics import Diagnostic


class Findings:
    """Findings by file and by target: the function or the top of a module that mypy checks as a whole."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, dict[Diagnostic, None]]] = defaultdict(lambda: defaultdict(dict))

    def renew(self, errors: Mapping[str, Iterable[Any]], paths: Iterable[str], targets: Iterable[str]) -> None:
        """Take in what mypy has found in an update.

        Args:
            errors: Errors in mypy's form, by file.
            paths: Files that were checked from the beginning.
            targets: Targets that were checked again in other files.
        """
        for path in paths:
            self._found.pop(path, None)
        for target in targets:
            for found in self._found.values():
                found.pop(target, None)
        for path, infos in errors.items():
            for info in infos:
                one = _diagnostic(path, info)
                if one is not None:
                    self._found[path][str(info.target or info.module)][one] = None

    def of(self, path: str) -> list[Diagnostic]:
        """Return the findings in a file, in the order of its lines."""
        found = [one for of_target in self._found.get(path, {}).values() for one in of_target]
        return sorted(found, key=lambda one: (one.line, one.column))

    @property
    def paths(self) -> list[str]:
        """Files in which there is something."""
        return [path for path, found in self._found.items() if any(found.values())]


def _diagnostic(path: str, info: Any) -> Diagnostic | None:
    """Return an error as a diagnostic; None if it is mypy's own, or not shown."""
    code = info.code.code if info.code is not None else ""
    if not code.startswith("batch-") or info.hidden:
        return None
    severity: Literal["error", "note"] = "note" if info.severity == "note" else "error"
    end = info.end_line if info.end_line > 0 else info.line
    return Diagnostic(
        path, info.line, info.column + 1, end, max(info.end_column, info.column + 1), severity, info.message, code
    )
