"""The findings of the mypy plugin alone, beside another type checker or none: ``typedbatch check``."""

from typedbatch._check.diagnostics import Diagnostic
from typedbatch._check.running import Checked, check

__all__ = ["Checked", "Diagnostic", "check"]
