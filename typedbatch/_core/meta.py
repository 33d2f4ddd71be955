"""Meta: values that belong to a batch as a whole, stored beside its fields.

A batch that has meta, or shares its fields with a view, stores its fields in a subclass of ``dict`` that holds the meta
too. For any other batch an operation only checks the type of its ``__dict__``. Batches that share their fields share
the meta.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from typedbatch._core.compiling import break_graph, is_compiling
from typedbatch._core.kinds import Tree, describe
from typedbatch.errors import LeafError

_replacing: Final = Lock()


class FieldsWithMeta(dict[str, Any]):
    """The ``__dict__`` of a batch that has meta, or that shares its fields, and so its meta, with a view.

    Args:
        fields: Fields of the batch.
        meta: Meta of the batch, stored without a copy.
    """

    __slots__ = ("meta",)

    def __init__(self, fields: Mapping[str, Any], meta: dict[str, Any]) -> None:
        super().__init__(fields)
        self.meta: dict[str, Any] = meta

    def __reduce__(self) -> Any:
        return FieldsWithMeta, (dict(self), self.meta)


def meta_of(tree: Tree) -> dict[str, Any]:
    """Return the meta of a batch, not a copy; for a batch without meta, return an empty dict that is not stored."""
    fields = tree.__dict__
    return fields.meta if isinstance(fields, FieldsWithMeta) else {}


def set_meta(tree: Tree, meta: dict[str, Any]) -> None:
    """Set the meta of a batch, and of all batches that share its fields; ``meta`` is not copied."""
    shared_fields(tree).meta = meta


def shared_fields(tree: Tree) -> FieldsWithMeta:
    """Return the ``__dict__`` of a batch for a view to share, after making it able to hold meta.

    A plain ``dict`` is replaced before the view exists. So no other batch has to be found when meta is set later.
    """
    if isinstance(fields := tree.__dict__, FieldsWithMeta):
        return fields
    if is_compiling():
        break_graph("the record of a plain batch shares its fields; validate the batch before the compiled function")
    # Without the lock, one of two threads that validate a batch might get a view of fields that the other replaces.
    with _replacing:
        if not isinstance(fields := tree.__dict__, FieldsWithMeta):
            fields = FieldsWithMeta(fields, {})
            object.__setattr__(tree, "__dict__", fields)
    return fields


def restore_meta(tree: Tree, state: Mapping[str, Any]) -> None:
    """Set the meta of a batch to that of an unpickled state, if the state has meta."""
    if isinstance(state, FieldsWithMeta):
        set_meta(tree, state.meta)


def keep_meta(tree: Tree, out: Tree) -> dict[str, Any]:
    """Copy the meta of ``tree`` to ``out``, a new batch.

    Returns:
        The fields of ``out``, in a new dict if there is meta.
    """
    meta = meta_of(tree)
    if not meta:
        return out.__dict__
    fields = FieldsWithMeta(out.__dict__, dict(meta))
    object.__setattr__(out, "__dict__", fields)
    return fields


def as_meta(given: object) -> dict[str, Any]:
    """Return a new dict with the keys and values given as meta."""
    if not isinstance(given, Mapping):
        raise LeafError(
            f"meta must be a dict, got {describe(given)}; for a field of that name write Batch({{'meta': ...}})"
        )
    for key in given:
        if not isinstance(key, str):
            raise LeafError(f"the keys of meta must be strings, got {key!r} ({type(key).__name__})")
    return dict(given)


class WithMeta(Tree):
    """The ``meta`` attribute of a batch."""

    if TYPE_CHECKING:
        meta: Any = ...
        """Values that belong to the batch as a whole and not to a row: a temperature, a step, a number of tokens.

        It is a dict with strings as keys, which may be changed or replaced. Indexing, ``split``, copies, arithmetic,
        conversion, pickles and files preserve it: each new batch has a dict of its own with the same values. ``cat``
        and ``stack`` preserve what is equal in all batches. It is never indexed, moved or converted, is not among
        ``keys()`` and does not count in ``len``; ``==`` compares it. A record can declare its keys as a ``TypedDict``.
        """
    else:

        @property
        def meta(self) -> dict[str, Any]:
            return shared_fields(self).meta

        @meta.setter
        def meta(self, value: Mapping[str, Any]) -> None:
            set_meta(self, as_meta(value))
