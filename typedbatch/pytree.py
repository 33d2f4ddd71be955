"""Batches as pytrees, for ``torch.utils._pytree`` (``tree_map``, ``vmap``, ``torch.compile``) and for ``optree``.

A Batch is a node: its children are the fields in their order, ``None``, text and objects included; its class, names
and meta are the structure. Registration happens by itself when the library is already imported as typedbatch is, or,
for torch, when the first tensor is stored. :func:`register` does it at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from typedbatch._ops.equality import same_meta
from typedbatch._tree.leaves import listeners, new_tree
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch.batch import Batch

_DONE: set[tuple[str, type]] = set()


def register() -> None:
    """Teach torch and optree, where they are imported, to see into ``Batch`` and all records. Harmless to repeat."""
    for cls in _family(Batch):
        _register_class(cls)


def _family(cls: type[Batch]) -> Iterable[type[Batch]]:
    yield cls
    for child in type.__subclasses__(cls):
        yield from _family(child)


def _register_class(cls: type[Batch]) -> None:
    for library, register_in in (("torch.utils._pytree", _register_in_torch), ("optree", _register_in_optree)):
        if sys.modules.get(library) is not None and (library, cls) not in _DONE:
            _DONE.add((library, cls))
            register_in(cls)


class _Meta:
    """The meta of a batch, as the last of its names in the structure of a tree; equal by value."""

    def __init__(self, batch: Batch) -> None:
        self.batch: Batch = new_tree(Batch, {})
        set_meta(self.batch, dict(meta_of(batch)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Meta) and same_meta(self.batch, other.batch)

    def __hash__(self) -> int:
        return hash(frozenset(meta_of(self.batch)))

    def __repr__(self) -> str:
        return f"meta={meta_of(self.batch)}"


def _names(batch: Batch) -> tuple[Any, ...]:
    names = tuple(batch.__dict__)
    return (*names, _Meta(batch)) if meta_of(batch) else names


def _flatten(batch: Batch) -> tuple[list[Any], tuple[Any, ...]]:
    return list(batch.__dict__.values()), _names(batch)


def _register_in_torch(cls: type[Batch]) -> None:
    from torch.utils import _pytree

    def unflatten(leaves: Iterable[Any], names: Sequence[Any]) -> Batch:
        return _build(cls, leaves, names)

    def flatten_with_keys(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        return [(_pytree.GetAttrKey(name), leaf) for name, leaf in batch.__dict__.items()], _names(batch)

    name = f"{cls.__module__}.{cls.__qualname__}"
    _pytree.register_pytree_node(
        cls, _flatten, unflatten, serialized_type_name=name, flatten_with_keys_fn=flatten_with_keys
    )


def _register_in_optree(cls: type[Batch]) -> None:
    optree: Any = sys.modules["optree"]

    def flatten(batch: Batch) -> tuple[list[Any], tuple[Any, ...], tuple[str, ...]]:
        return list(batch.__dict__.values()), _names(batch), tuple(batch.__dict__)

    def unflatten(names: Sequence[Any], leaves: Iterable[Any]) -> Batch:
        return _build(cls, leaves, names)

    # optree's name for "every namespace", so that a plain tree_map sees into a Batch; it has no shorter one
    everywhere: Any = vars(optree.registry)["__GLOBAL_NAMESPACE"]
    optree.register_pytree_node(cls, flatten, unflatten, namespace=everywhere, path_entry_type=optree.GetAttrEntry)


def _build(cls: type[Batch], leaves: Iterable[Any], names: Sequence[Any]) -> Batch:
    # Nothing is converted: while they transform, both libraries put placeholders where leaves were.
    meta = names[-1] if names and isinstance(names[-1], _Meta) else None
    batch: Batch = new_tree(cls, dict(zip(names if meta is None else names[:-1], leaves, strict=True)))
    if meta is not None:
        set_meta(batch, dict(meta_of(meta.batch)))
    return batch


listeners.append(register)
register()
