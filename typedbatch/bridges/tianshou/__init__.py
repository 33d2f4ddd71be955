"""Tianshou's batches, replay buffers and algorithms, which need the extra ``tianshou``; its files do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typedbatch.bridges.tianshou.convert import buffer_from_tianshou, buffer_to_tianshou, from_tianshou, to_tianshou
    from typedbatch.bridges.tianshou.updates import tianshou_update

__all__ = ["buffer_from_tianshou", "buffer_to_tianshou", "from_tianshou", "tianshou_update", "to_tianshou"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # They import Tianshou, which its files do not need.
        from typedbatch.bridges.tianshou import convert, updates

        return getattr(updates if name == "tianshou_update" else convert, name)

    def __dir__() -> list[str]:
        return __all__
