"""Arrays of any library that speaks DLPack, as JAX, CuPy and others do, on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from typedbatch._ops.combine import require_names
from typedbatch._ops.conversion import torch_side
from typedbatch._tree.depth import require_depth
from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, TENSOR, Tree, describe, new_tree
from typedbatch._tree.rows import require_bounded
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SettingError, TypedBatchError, under


def from_dlpack(fields: Mapping[str, Any], into: Literal["numpy", "torch"] = "numpy") -> Batch:
    """A batch on the memory of other libraries' arrays.

    Args:
        fields: names and arrays with ``__dlpack__``; mappings become nested batches.
        into: what the leaves are. Torch takes memory of a GPU too, numpy that of the CPU alone. Memory that must not be
            written to is read-only in numpy. Torch has no such tensors: read-only arrays of numpy are refused, what
            other libraries call read-only is as they and torch settle it.

    Raises:
        LeafError: an array that cannot be shared; the error names it.
        SettingError: ``into`` is something else.
        StructureError: mappings are nested more than 100 deep.
    """
    if into not in ("numpy", "torch"):
        raise SettingError(f"into= is 'numpy' or 'torch', got {into!r}")
    take: Callable[[Any], Any] = np.from_dlpack if into == "numpy" else torch_side().torch.from_dlpack
    if not isinstance(fields, Mapping):
        raise LeafError(f"from_dlpack() takes names and arrays, got {describe(fields)}")
    require_depth(fields, lambda value: value if isinstance(value, Mapping) else None)
    return _shared(fields, take, into)


def _shared(fields: Mapping[str, Any], take: Callable[[Any], Any], into: str) -> Batch:
    require_names(fields)
    out: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            if isinstance(value, Mapping):
                out[name] = _shared(value, take, into)
            elif hasattr(value, "__dlpack__"):
                _require_shareable(value, into)
                out[name] = take(value)
            else:
                raise LeafError(f"{describe(value)} has no __dlpack__")
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise LeafError(f"{describe(value)} cannot be shared with {into}: {error}", name) from error
    batch: Batch = new_tree(Batch, out)
    return batch


def _require_shareable(value: Any, into: str) -> None:
    if not isinstance(value, np.ndarray):
        return
    if isinstance(value, np.ma.MaskedArray):
        raise BufferError("its mask would be lost; fill it, and share the mask too")
    if into == "torch" and not value.flags.writeable:
        raise BufferError("it is read-only, and tensors are not; copy() it first")
    if into == "torch" and any(stride < 0 for stride in value.strides):  # torch ends the whole process over them
        raise BufferError("it runs backwards, and tensors cannot; copy() it first")


def to_dlpack(batch: Any) -> dict[str, Any]:
    """The fields as a dict of arrays and tensors that other libraries take: ``jax.numpy.from_dlpack(fields["obs"])``.

    Args:
        batch: a batch of numbers; nested ones become dicts. Gradients are cut.

    Raises:
        LeafError: a field of objects, text, dates or distributions, or one with a mask; the error names it.
        StructureError: batches are nested more than 100 deep.
    """
    return _exported(require_bounded(batch, "to_dlpack()"))


def _exported(tree: Tree) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        kind = KINDS[type(value)]
        if kind is BATCH:
            with under(name):
                out[name] = _exported(value)
        elif kind is TENSOR:
            out[name] = value.detach().resolve_conj().resolve_neg()
        elif kind is ARRAY and value.dtype.kind in "biufc" and not isinstance(value, np.ma.MaskedArray):
            out[name] = value
        else:
            raise LeafError(f"{describe(value)} is not a plain array of numbers, which DLPack is for", name)
    return out
