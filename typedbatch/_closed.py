"""``ClosedBatch``: the base of the batches whose fields are declared, which are records and sample batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from typedbatch.batch import Batch

if TYPE_CHECKING:
    from typedbatch._typing import TYPEDBATCH_PLUGIN, Closed, ClosedToWriting, ForNumpy, Validated


class ClosedBatch(Batch):
    """A batch with declared fields of one length; type checkers refuse other fields, and compare it with protocols."""

    _needs_equal_rows = True

    if TYPE_CHECKING:
        if not TYPEDBATCH_PLUGIN:
            # Of the spellings that hide the methods of Batch, only this one has the same effect in all type checkers.
            __getattr__: ClassVar[Closed]  # type: ignore[assignment,misc]  # pyright: ignore[reportIncompatibleMethodOverride]
            __setattr__: ClassVar[ClosedToWriting]  # type: ignore[assignment,misc]  # pyright: ignore[reportIncompatibleMethodOverride]
            __delattr__: ClassVar[Closed]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

            @property
            @override
            def __validated__(self) -> Validated: ...

        def __array__(self) -> ForNumpy: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # unlike a plain batch
