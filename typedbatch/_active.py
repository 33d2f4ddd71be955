"""A function by which a user's CI can check that mypy runs with the plugin."""

from __future__ import annotations

from typing import Final, Literal

MYPY: Final = False  # mypy alone treats a variable of this name as true, whatever its value.

if MYPY:

    def mypy_plugin_active() -> Literal[False]: ...  # pyright: ignore[reportRedeclaration]  # Only mypy reads this.

else:

    def mypy_plugin_active() -> Literal[True]:
        """Return ``True``; the type for mypy is ``Literal[True]`` with the plugin, and ``Literal[False]`` without it.

        In a file that CI checks, this line is an error if ``plugins = typedbatch.mypy`` is missing::

            _: Literal[True] = mypy_plugin_active()

        Other checkers, which have no plugins, accept the line. At run time nothing is checked.
        """
        return True
