"""The findings of the mypy plugin alone, beside another type checker or none: ``typedbatch check``."""

from typedbatch.check.diagnostics import Diagnostic
from typedbatch.check.running import Checked, check

__all__ = ["Checked", "Diagnostic", "check"]
