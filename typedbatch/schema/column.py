"""``Column``, the type of a column of Python objects whose items have a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import DeclarationError
from typedbatch.rules import Rule

if TYPE_CHECKING:
    from typing import overload

    T_co = TypeVar("T_co", covariant=True)

    class Column(np.ndarray[tuple[Any, ...], np.dtype[np.object_]], Generic[T_co]):
        """A column of Python objects of one type, one for each row: ``answer: Column[str]``."""

        @overload  # type: ignore[override]  # numpy gives Any for an item
        def __getitem__(self, index: slice | NDArray[Any] | list[int] | list[bool], /) -> Column[T_co]: ...
        @overload
        def __getitem__(self, index: SupportsIndex, /) -> T_co: ...
        def __getitem__(self, index: Any, /) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __iter__(self) -> Iterator[T_co]: ...  # type: ignore[override]  # likewise
        def tolist(self) -> list[T_co]: ...  # type: ignore[override]  # likewise

else:

    class Column:
        """A column of Python objects of one type, one for each row: ``answer: Column[str]``.

        For annotations. At run time the column is an array of dtype ``object``, as :func:`objects` creates it, and
        ``Column[str]`` is ``Annotated[NDArray[np.object_], ...]`` with a rule. Type checkers know that each item in
        ``for text in batch.answer`` is a ``str``, as ``batch.answer[0]`` is, and refuse ``objects([1, 2])`` for it.

        The rule reads every item at the level ``"values"``, also the keys of a ``TypedDict`` and the items of a list in
        it. It accepts any item of a type that cannot be checked at run time, such as a protocol.

        ::

            class Questions(BatchRecord):
                answer: Column[str]
                messages: Column[list[Message]]
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return annotation_of(item)


@dataclass(frozen=True)
class ItemsAre:
    """A test of the items of a column: whether they are of the type ``item``."""

    item: Any

    def __call__(self, column: Any) -> NDArray[np.bool_]:
        """Return for each item whether it is of the type."""
        from typedbatch.schema.declared_meta import is_of_type  # imported here because its imports take long

        return np.array([is_of_type(value, self.item) for value in column.flat], bool).reshape(column.shape)


def annotation_of(item: Any) -> Any:
    """Return what ``Column[item]`` stands for at run time."""
    if isinstance(item, tuple):
        raise DeclarationError(f"a column has one type of items, got {len(item)}; Column[int | str] takes both")
    return NDArray[np.object_] if item is Any or item is object else Annotated[NDArray[np.object_], rule_of(item)]


def rule_of(item: Any) -> Rule:
    """Return the rule that the items of a column are of a type."""
    from typedbatch.schema.annotations import alternatives, show  # likewise

    parts = ("None" if part in (None, type(None)) else show(part) for part in alternatives(item))
    return Rule(" or ".join(parts), ItemsAre(item))
