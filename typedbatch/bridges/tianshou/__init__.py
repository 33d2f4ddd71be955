"""Conversion of Tianshou's batches and replay buffers, which needs the extra ``tianshou``; its files do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typedbatch.bridges.tianshou.convert import (
        buffer_from_tianshou,
        buffer_to_tianshou,
        from_tianshou,
        to_tianshou,
    )

__all__ = ["buffer_from_tianshou", "buffer_to_tianshou", "from_tianshou", "to_tianshou"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from typedbatch.bridges.tianshou import convert  # imports Tianshou, which its files do not need

        return getattr(convert, name)

    def __dir__() -> list[str]:
        return __all__
