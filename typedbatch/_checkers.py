"""Declarations for type checkers alone: the open fields of a plain batch, and a function that is true under the plugin.

A class with ``__getattr__`` matches every protocol structurally. ``Batch`` is therefore declared to inherit from
``BatchProtocol``, which may then have a member, ``__validated__``, that a plain batch does not match. Protocols derived
from ``BatchProtocol`` inherit the member, and type checkers compare a batch with these structurally. None of this
exists at run time. The mypy plugin, which knows the fields of plain batches itself, hides the member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from typedbatch._typing import TYPEDBATCH_PLUGIN, Unvalidated, Validated
    from typedbatch.protocols import BatchProtocol

    class OpenFields(BatchProtocol):
        """Base of ``Batch`` for type checkers."""

        if not TYPEDBATCH_PLUGIN:

            @property
            def __validated__(self) -> Unvalidated | Validated: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # so that a plain batch matches no protocol

            # mypy and pyrefly would find these by __getattr__, and take a batch for a number, a path or an iterator.
            __aiter__: ClassVar[None]
            __array__: ClassVar[None]  # type: ignore[assignment]  # np.mean(record) and np.exp(batch).x pass
            __await__: ClassVar[None]
            __buffer__: ClassVar[None]
            __bytes__: ClassVar[None]
            __call__: ClassVar[None]
            __complex__: ClassVar[None]
            __enter__: ClassVar[None]
            __exit__: ClassVar[None]
            __float__: ClassVar[None]
            __fspath__: ClassVar[None]
            __gt__: ClassVar[None]
            __index__: ClassVar[None]
            __int__: ClassVar[None]
            __lt__: ClassVar[None]
            __next__: ClassVar[None]
            __reversed__: ClassVar[None]
            __round__: ClassVar[None]
            __trunc__: ClassVar[None]

else:
    OpenFields = object

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
