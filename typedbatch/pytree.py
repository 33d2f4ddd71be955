"""Batches as pytrees, for ``torch.utils._pytree`` (``tree_map``, ``vmap``, ``torch.compile``) and for ``optree``.

A Batch is a node. Its children are the fields in their order, including ``None``, text and objects; its class, names
and meta are the structure. A Ragged is a node with one child, its values. The lengths are part of the structure, so
that a function that is mapped over numbers does not change them.

Registration is automatic if the library is imported before typedbatch, or for torch, when the first tensor is stored.
:func:`register` does it at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from typedbatch._core.kinds import Sequences, Tree, listeners, new_sequences, new_tree
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.equality import same_meta

_Flat = tuple[list[Any], Any, tuple[str, ...]]
"""Children of a node, its structure, and the names of the children."""

_DONE: set[tuple[str, Any]] = set()
_Lengths = tuple[tuple[int, ...], bool]
"""Lengths of a Ragged, and whether it has a dimension for rows, in a form that can be compared and hashed."""


def register() -> None:
    """Register ``Batch``, all its subclasses and ``Ragged`` in torch and optree, if these are imported.

    Repeated calls are harmless.
    """
    for cls in _subclasses(Tree):
        _register(cls, _flatten, partial(_build, cls), f"{cls.__module__}.{cls.__qualname__}")
    for ragged in type.__subclasses__(Sequences):
        _register(ragged, _flatten_ragged, partial(_build_ragged, ragged), f"typedbatch.{ragged.__name__}")


def _subclasses(cls: type[Tree]) -> Iterable[type[Tree]]:
    for child in type.__subclasses__(cls):
        yield child
        yield from _subclasses(child)


def _register(cls: Any, flatten: Callable[[Any], _Flat], unflatten: Callable[[Any, Any], Any], name: str) -> None:
    """Register a class in the libraries that are imported and do not have it yet."""
    if sys.modules.get("torch.utils._pytree") is not None and ("torch", cls) not in _DONE:
        from torch.utils import _pytree

        def flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
            children, structure, names = flatten(node)
            return [(_pytree.GetAttrKey(name), child) for name, child in zip(names, children, strict=True)], structure

        _DONE.add(("torch", cls))
        _pytree.register_pytree_node(
            cls,
            lambda node: flatten(node)[:2],
            unflatten,
            serialized_type_name=name,
            flatten_with_keys_fn=flatten_with_keys,
        )
    optree: Any = sys.modules.get("optree")
    if optree is not None and ("optree", cls) not in _DONE:
        # optree's marker for all namespaces, so that a plain tree_map sees into a Batch, has no public name.
        everywhere = vars(sys.modules["optree.registry"])["__GLOBAL_NAMESPACE"]
        _DONE.add(("optree", cls))
        optree.register_pytree_node(
            cls,
            flatten,
            lambda structure, children: unflatten(children, structure),
            namespace=everywhere,
            path_entry_type=optree.GetAttrEntry,
        )


class _Meta:
    """Meta of a batch, stored after its names in the structure of a tree, and compared by value."""

    def __init__(self, batch: Tree) -> None:
        self.batch: Tree = new_tree(Tree.__plain__, {})
        set_meta(self.batch, dict(meta_of(batch)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Meta) and same_meta(self.batch, other.batch)

    def __hash__(self) -> int:
        return hash(frozenset(meta_of(self.batch)))

    def __repr__(self) -> str:
        return f"meta={meta_of(self.batch)}"


def _flatten(batch: Tree) -> _Flat:
    names = tuple(batch.__dict__)
    return list(batch.__dict__.values()), (*names, _Meta(batch)) if meta_of(batch) else names, names


def _flatten_ragged(ragged: Sequences) -> _Flat:
    lengths: _Lengths = (tuple(ragged.sizes.reshape(-1).tolist()), bool(ragged.sizes.shape))
    return [ragged.values], lengths, ("values",)


def _build_ragged(cls: type[Sequences], children: Iterable[Any], lengths: _Lengths) -> Any:
    (values,), (sizes, has_rows) = children, lengths
    array = np.array(sizes, np.intp)
    return new_sequences(cls, values, array if has_rows else array.reshape(()))


def _build(cls: type[Tree], leaves: Iterable[Any], names: Sequence[Any]) -> Tree:
    # Nothing is converted, since both libraries put placeholders in place of leaves while they transform.
    meta = names[-1] if names and isinstance(names[-1], _Meta) else None
    batch = new_tree(cls, dict(zip(names if meta is None else names[:-1], leaves, strict=True)))
    if meta is not None:
        set_meta(batch, dict(meta_of(meta.batch)))
    return batch


listeners.append(register)
