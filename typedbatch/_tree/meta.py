"""What goes with a batch as a whole and is in no row: its meta, beside the fields.

A batch that has meta keeps its fields in a ``dict`` of a class of its own, which has the meta too. So a batch without
pays nothing but a look at the type of its ``__dict__``, and what shares the fields, as a view does, shares the meta.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typedbatch._tree.leaves import Tree, describe
from typedbatch.errors import LeafError


class FieldsWithMeta(dict[str, Any]):
    """The ``__dict__`` of a batch that has meta.

    Args:
        fields: the fields of the batch.
        meta: the meta itself, not a copy of it.
    """

    __slots__ = ("meta",)

    def __init__(self, fields: Mapping[str, Any], meta: dict[str, Any]) -> None:
        super().__init__(fields)
        self.meta = meta

    def __reduce__(self) -> Any:
        return FieldsWithMeta, (dict(self), self.meta)


def meta_of(tree: Tree) -> dict[str, Any]:
    """The meta of a batch itself; an empty dict, which is not kept, for one that has none."""
    fields = tree.__dict__
    return fields.meta if isinstance(fields, FieldsWithMeta) else {}


def own_meta(tree: Tree) -> dict[str, Any]:
    """The meta of a batch itself, which may be written to; one that has none gets an empty one."""
    if type(tree.__dict__) is dict:
        set_meta(tree, {})
    return meta_of(tree)


def set_meta(tree: Tree, meta: dict[str, Any]) -> None:
    """Give a batch, and all that share its fields, this meta itself."""
    if isinstance(tree.__dict__, FieldsWithMeta):
        tree.__dict__.meta = meta
        return
    alone = _references(tree) == _ALONE
    fields = FieldsWithMeta(tree.__dict__, meta)
    for one in [tree] if alone else _sharers(tree):
        object.__setattr__(one, "__dict__", fields)


def _references(tree: Tree) -> int:
    return sys.getrefcount(tree.__dict__)


_ALONE: Final = _references(Tree())


def _sharers(tree: Tree) -> list[Tree]:
    """The batches with the same ``__dict__``, as views are; only the garbage collector knows them."""
    shared = tree.__dict__
    found = [one for one in gc.get_referrers(shared) if issubclass(type(one), Tree) and one.__dict__ is shared]
    return found if any(one is tree for one in found) else [*found, tree]


def restore_meta(tree: Tree, state: Mapping[str, Any]) -> None:
    """Give a batch the meta that a pickle kept beside the fields, if it did."""
    if isinstance(state, FieldsWithMeta):
        set_meta(tree, state.meta)


def keep_meta(tree: Tree, out: Tree) -> dict[str, Any]:
    """Give ``out``, which is new, a copy of the meta of ``tree``, which has some.

    Returns:
        The fields of ``out``, which are in another place now.
    """
    fields = FieldsWithMeta(out.__dict__, dict(meta_of(tree)))
    object.__setattr__(out, "__dict__", fields)
    return fields


def as_meta(given: object) -> dict[str, Any]:
    """A dict of its own for what is given as meta.

    Raises:
        LeafError: it is not a dict with strings as keys.
    """
    if not isinstance(given, Mapping):
        raise LeafError(f"meta is a dict, got {describe(given)}; for a field of that name write Batch({{'meta': ...}})")
    for key in given:
        if not isinstance(key, str):
            raise LeafError(f"the keys of meta are strings, got {key!r} ({type(key).__name__})")
    return dict(given)


class WithMeta(Tree):
    """A batch as the owner of its meta."""

    if TYPE_CHECKING:
        meta: Any
        """What goes with the batch as a whole, and is in no row: the temperature, the step, a count of tokens.

        A dict with strings as keys, which may be written to, or replaced. Indexing, ``split``, copies, arithmetic,
        conversion, pickles and files keep it: each new batch has a dict of its own with the same values. ``cat`` and
        ``stack`` keep what is equal. It is never indexed, moved or converted, is not among ``keys()`` and not counted
        by ``len``; ``==`` compares it. A record says what is in it by declaring it as a ``TypedDict``.
        """
    else:

        @property
        def meta(self) -> dict[str, Any]:
            return own_meta(self)

        @meta.setter
        def meta(self, value: Mapping[str, Any]) -> None:
            set_meta(self, as_meta(value))
