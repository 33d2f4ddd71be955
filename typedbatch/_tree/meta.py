"""Meta of a batch as a whole, stored beside its fields.

A batch that has meta, or shares its fields with a view, keeps the fields in a ``dict`` of a class of its own, which has
the meta too. So any other batch pays only a look at the type of its ``__dict__``, and whatever shares the fields shares
the meta.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from typedbatch._tree.leaves import Tree, describe
from typedbatch.errors import LeafError


class FieldsWithMeta(dict[str, Any]):
    """The ``__dict__`` of a batch that has meta, or may get some that a view is to see.

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
    """Return the meta of a batch itself; for one that has none an empty dict, which is not stored."""
    fields = tree.__dict__
    return fields.meta if isinstance(fields, FieldsWithMeta) else {}


def own_meta(tree: Tree) -> dict[str, Any]:
    """Return the meta of a batch itself, which may be written to; a batch without meta gets an empty dict."""
    return shared_fields(tree).meta


def set_meta(tree: Tree, meta: dict[str, Any]) -> None:
    """Give a batch, and all that share its fields, this meta itself."""
    shared_fields(tree).meta = meta


def shared_fields(tree: Tree) -> FieldsWithMeta:
    """Return the ``__dict__`` of a batch, made able to hold meta first: what a view shares.

    A plain ``dict`` is replaced before there is a view, so that no other batch has to be found when meta is set later.
    """
    if isinstance(fields := tree.__dict__, FieldsWithMeta):
        return fields
    with _replacing:  # or of two threads that validate one batch, one would get a view of fields that are replaced
        if not isinstance(fields := tree.__dict__, FieldsWithMeta):
            fields = FieldsWithMeta(fields, {})
            object.__setattr__(tree, "__dict__", fields)
    return fields


_replacing: Final = Lock()


def restore_meta(tree: Tree, state: Mapping[str, Any]) -> None:
    """Give a batch the meta that a pickle kept beside the fields, if it did."""
    if isinstance(state, FieldsWithMeta):
        set_meta(tree, state.meta)


def keep_meta(tree: Tree, out: Tree) -> dict[str, Any]:
    """Give ``out``, which is new, a copy of the meta of ``tree``.

    Returns:
        The fields of ``out``, which are another dict now if there is meta.
    """
    meta = meta_of(tree)
    if not meta:
        return out.__dict__
    fields = FieldsWithMeta(out.__dict__, dict(meta))
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
