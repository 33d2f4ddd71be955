"""Proof, for a user's CI, that mypy runs with the plugin."""

from __future__ import annotations

from typing import Final, Literal

MYPY: Final = False  # mypy alone takes this name for true, whatever it is

if MYPY:

    def mypy_plugin_active() -> Literal[False]: ...  # pyright: ignore[reportRedeclaration]  # it is for mypy

else:

    def mypy_plugin_active() -> Literal[True]:
        """``Literal[True]`` to mypy with ``plugins = typedbatch.mypy``, and ``Literal[False]`` without it.

        One line in a file that CI checks fails when the plugin is off::

            _: Literal[True] = mypy_plugin_active()

        Other checkers, which no plugin can be on for, take the line as it is, and at run time nothing is looked at.
        """
        return True
