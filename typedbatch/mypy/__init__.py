"""The mypy plugin: with ``plugins = typedbatch.mypy`` mypy knows the fields of every plain ``Batch``, line by line."""

from typedbatch.mypy.plugin import plugin

__all__ = ["plugin"]
