"""Proof, for a user's CI, that mypy runs with the plugin."""

from __future__ import annotations

from typing import Literal


def mypy_plugin_active() -> Literal[False]:
    """``Literal[True]`` to mypy with ``plugins = typedbatch.mypy``; False to every other checker and at run time.

    One line in a file that CI checks fails when the plugin is off::

        _: Literal[True] = mypy_plugin_active()
    """
    return False
