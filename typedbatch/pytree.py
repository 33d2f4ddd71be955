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
from typing import Any

import numpy as np

from typedbatch._ops.equality import same_meta
from typedbatch._tree.kinds import listeners, new_sequences, new_tree
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch.batch import Batch
from typedbatch.ragged import Ragged

_DONE: set[tuple[str, Any]] = set()


def register() -> None:
    """Register ``Batch``, all its subclasses and ``Ragged`` in torch and optree, if these are imported.

    Repeated calls are harmless.
    """
    for cls in _family(Batch):
        _register_class(cls, _register_in_torch, _register_in_optree)
    _register_class(Ragged, _register_ragged_in_torch, _register_ragged_in_optree)


def _family(cls: type[Batch]) -> Iterable[type[Batch]]:
    yield cls
    for child in type.__subclasses__(cls):
        yield from _family(child)


def _register_class(cls: Any, in_torch: Callable[[Any], None], in_optree: Callable[[Any], None]) -> None:
    for library, register_in in (("torch.utils._pytree", in_torch), ("optree", in_optree)):
        if sys.modules.get(library) is not None and (library, cls) not in _DONE:
            _DONE.add((library, cls))
            register_in(cls)


class _Meta:
    """Meta of a batch, stored after its names in the structure of a tree, and compared by value."""

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

    optree.register_pytree_node(cls, flatten, unflatten, namespace=_everywhere(), path_entry_type=optree.GetAttrEntry)


def _everywhere() -> Any:
    # optree's marker for all namespaces, so that a plain tree_map sees into a Batch, has no public name.
    return vars(sys.modules["optree.registry"])["__GLOBAL_NAMESPACE"]


_Lengths = tuple[tuple[int, ...], bool]
"""Lengths of a Ragged, and whether it has a dimension for rows, in a form that can be compared and hashed."""


def _flatten_ragged(ragged: Ragged[Any]) -> tuple[list[Any], _Lengths]:
    return [ragged.values], (tuple(ragged.sizes.reshape(-1).tolist()), bool(ragged.sizes.shape))


def _unflatten_ragged(children: Iterable[Any], lengths: _Lengths) -> Ragged[Any]:
    (values,), (sizes, has_rows) = children, lengths
    array = np.array(sizes, np.intp)
    ragged: Ragged[Any] = new_sequences(Ragged, values, array if has_rows else array.reshape(()))
    return ragged


def _register_ragged_in_torch(cls: Any) -> None:
    from torch.utils import _pytree

    def flatten_with_keys(ragged: Ragged[Any]) -> tuple[list[tuple[Any, Any]], _Lengths]:
        return [(_pytree.GetAttrKey("values"), ragged.values)], _flatten_ragged(ragged)[1]

    _pytree.register_pytree_node(
        cls,
        _flatten_ragged,
        _unflatten_ragged,
        serialized_type_name="typedbatch.Ragged",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _register_ragged_in_optree(cls: Any) -> None:
    optree: Any = sys.modules["optree"]

    def flatten(ragged: Ragged[Any]) -> tuple[list[Any], _Lengths, tuple[str]]:
        return (*_flatten_ragged(ragged), ("values",))

    optree.register_pytree_node(
        cls,
        flatten,
        lambda lengths, children: _unflatten_ragged(children, lengths),
        namespace=_everywhere(),
        path_entry_type=optree.GetAttrEntry,
    )


def _build(cls: type[Batch], leaves: Iterable[Any], names: Sequence[Any]) -> Batch:
    # Nothing is converted, since both libraries put placeholders in place of leaves while they transform.
    meta = names[-1] if names and isinstance(names[-1], _Meta) else None
    batch: Batch = new_tree(cls, dict(zip(names if meta is None else names[:-1], leaves, strict=True)))
    if meta is not None:
        set_meta(batch, dict(meta_of(meta.batch)))
    return batch


listeners.append(register)
register()
