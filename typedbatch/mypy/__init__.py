"""The mypy plugin: with ``plugins = typedbatch.mypy`` mypy knows the fields of every plain ``Batch``, line by line."""

import sys

try:
    from typedbatch.mypy.plugin import plugin
except ModuleNotFoundError as _error:
    if _error.name != "mypy" or sys.argv[:1] != ["-m"]:  # "python -m typedbatch.mypy" says what to install.
        raise

__all__ = ["plugin"]
