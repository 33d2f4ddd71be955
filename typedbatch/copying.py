"""Copies and pickles of batches."""

from __future__ import annotations

import copy
from typing import Any, Final, TypeVar

from numpy import ndarray

from typedbatch.leaves import DISTRIBUTION, KINDS, TENSOR, Tree

T = TypeVar("T", bound=Tree)
new: Final = object.__new__


def shallow(tree: T) -> T:
    """The same leaves in new Batches, nested ones too: fields of the copy can be set and deleted freely."""
    out = new(type(tree))
    fields = out.__dict__
    for name, value in tree.__dict__.items():
        if type(value) is ndarray:
            fields[name] = value
        elif isinstance(value, Tree):
            fields[name] = shallow(value)
        else:
            fields[name] = value
    return out


def deep(tree: T, memo: dict[int, Any]) -> T:
    """A copy that shares no memory; leaves that were one object are one object in the copy too."""
    out = object.__new__(type(tree))
    memo[id(tree)] = out
    for name, value in tree.__dict__.items():
        out.__dict__[name] = deep_leaf(value, memo)
    return out


def deep_leaf(leaf: Any, memo: dict[int, Any]) -> Any:
    """A deep copy of one leaf, found in ``memo`` if it was copied before."""
    if id(leaf) in memo:
        return memo[id(leaf)]
    if isinstance(leaf, Tree):
        return deep(leaf, memo)
    kind = KINDS[type(leaf)]
    if kind is TENSOR:
        from typedbatch.tensors import clone

        result: Any = clone(leaf, memo)
    elif kind is DISTRIBUTION:
        from typedbatch.distributions import map_dist

        result = map_dist(leaf, lambda tensor: tensor.clone())
    elif type(leaf) is ndarray and not leaf.dtype.hasobject:
        result = leaf.copy("K")
    else:
        return copy.deepcopy(leaf, memo)
    memo[id(leaf)] = result
    return result


def state(tree: Tree) -> dict[str, Any]:
    """What a pickle keeps: the fields, with each tensor in a form that costs no more than an array."""
    fields = tree.__dict__
    for value in fields.values():
        if type(value) is not ndarray and KINDS[type(value)] is TENSOR:
            return _with_tensors(fields)
    return fields


def _with_tensors(fields: dict[str, Any]) -> dict[str, Any]:
    from typedbatch.tensors import for_pickle

    tensors = {id(v): for_pickle(v) for v in fields.values() if KINDS[type(v)] is TENSOR}
    return {name: tensors.get(id(value), value) for name, value in fields.items()}
