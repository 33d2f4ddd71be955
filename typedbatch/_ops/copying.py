"""Copies and pickles of batches."""

from __future__ import annotations

import copy
from copyreg import __newobj__ as newobj  # type: ignore[attr-defined]  # typeshed lacks it.
from functools import lru_cache
from typing import Any, Final, TypeVar

from numpy import ndarray

from typedbatch._core.kinds import DISTRIBUTION, KINDS, TENSOR, Tree, describe
from typedbatch._core.meta import FieldsWithMeta, keep_meta, meta_of, set_meta
from typedbatch.errors import LeafError, TypedBatchError

T = TypeVar("T", bound=Tree)
new: Final = object.__new__
_STATES: Final = frozenset({dict, FieldsWithMeta})


def shallow(tree: T) -> T:
    """Return the same leaves in new Batches, nested ones too, so that fields of the copy can be set and deleted."""
    out = new(type(tree))
    fields = out.__dict__
    given = tree.__dict__
    if type(given) is not dict:
        fields = keep_meta(tree, out)
    for name, value in given.items():
        if type(value) is ndarray:
            fields[name] = value
        elif isinstance(value, Tree):
            fields[name] = shallow(value)
        else:
            fields[name] = value
    return out


def become(tree: Tree, other: Tree) -> None:
    """Replace the fields and the meta of ``tree`` by those of ``other``."""
    tree.__dict__.clear()
    tree.__dict__.update(other.__dict__)
    if meta_of(tree) or meta_of(other):
        set_meta(tree, meta_of(other))


def deep(tree: T, memo: dict[int, Any]) -> T:
    """Return a copy that shares no memory; leaves that are one object are one object in the copy too."""
    out = object.__new__(type(tree))
    memo[id(tree)] = out
    for name, value in tree.__dict__.items():
        try:
            out.__dict__[name] = deep_leaf(value, memo)
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except RecursionError:
            raise
        except (TypeError, RuntimeError) as error:  # Locks, files, generators and tensors within a graph raise these.
            raise LeafError(f"{describe(value)} cannot be copied: {error}", name) from error
    if type(tree.__dict__) is not dict:
        copied = {}
        for key, value in meta_of(tree).items():
            try:
                copied[key] = copy.deepcopy(value, memo)
            except RecursionError:
                raise
            except (TypeError, RuntimeError) as error:
                raise LeafError(f"{describe(value)} cannot be copied: {error}", f"meta.{key}") from error
        set_meta(out, copied)
    return out


def deep_leaf(leaf: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of a leaf, taken from ``memo`` if the leaf has been copied before."""
    if id(leaf) in memo:
        return memo[id(leaf)]
    if isinstance(leaf, Tree):
        cls: Any = type(leaf)  # A subclass may define __deepcopy__; looked up on the instance, it could be a field.
        memo[id(leaf)] = copied = cls.__deepcopy__(leaf, memo)
        return copied
    kind = KINDS[type(leaf)]
    if kind is TENSOR:
        from typedbatch._core.tensors import clone

        result: Any = clone(leaf, memo)
    elif kind is DISTRIBUTION:
        from typedbatch._core.distributions import map_dist

        result = map_dist(leaf, lambda tensor: tensor.clone())
    elif type(leaf) is ndarray and not leaf.dtype.hasobject:
        result = leaf.copy("K")
    else:
        return copy.deepcopy(leaf, memo)
    memo[id(leaf)] = result
    return result


def apart(leaf: Any) -> Any:
    """Return a deep copy of a leaf on memory of its own; ``copy.deepcopy`` would copy a tensor's whole storage."""
    return leaf.clone() if KINDS[type(leaf)] is TENSOR else deep_leaf(leaf, {})


def reduced(tree: Tree, protocol: Any) -> Any:
    """Return what ``__reduce_ex__`` has to; from protocol 4 on, tensors are replaced by stand-ins as cheap as arrays.

    Below that, tensors are left to the pickler: ``torch.save`` writes protocol 2 and handles storages and devices.
    """
    cls: Any = type(tree)
    plain = protocol > 1 and _is_plain(cls)
    fields = tree.__dict__
    if isinstance(fields, FieldsWithMeta) and not fields.meta:  # A view shared the fields, but they never got meta.
        fields = dict(fields)
    parts: Any = (newobj, (cls,), fields) if plain else object.__reduce_ex__(tree, protocol)
    if protocol < 4 or not isinstance(parts, tuple) or len(parts) < 3 or type(parts[2]) not in _STATES:
        return parts
    state = parts[2]
    if not any(type(value) is not ndarray and KINDS[type(value)] is TENSOR for value in state.values()):
        return parts
    from typedbatch._core.tensors import for_pickle

    pickled = {name: for_pickle(v) if KINDS[type(v)] is TENSOR else v for name, v in state.items()}
    state = FieldsWithMeta(pickled, state.meta) if isinstance(state, FieldsWithMeta) else pickled
    return (*parts[:2], state, *parts[3:])


@lru_cache(maxsize=256)
def _is_plain(cls: Any) -> bool:
    """Return whether a class leaves pickling to ``Batch``, so that ``object.__reduce_ex__`` need not be called."""
    return (
        cls.__getstate__ is Tree.__getstate__
        and cls.__reduce__ is object.__reduce__
        and not hasattr(cls, "__getnewargs_ex__")
        and not hasattr(cls, "__getnewargs__")
    )
