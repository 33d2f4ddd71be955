"""Conversion of arrays of any library with DLPack, such as JAX and CuPy, on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from typedbatch._core.depth import require_depth
from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR, describe, new_tree
from typedbatch._core.lengths import require_bounded
from typedbatch._ops.combine import require_names
from typedbatch._ops.conversion import torch_side
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, SettingError, TypedBatchError, for_each


def from_dlpack(fields: Mapping[str, Any], into: Literal["numpy", "torch"] = "numpy") -> Batch:
    """Return a batch on the memory of other libraries' arrays.

    Args:
        fields: Arrays with ``__dlpack__``, by name. Mappings become nested batches.
        into: Type of the leaves. Torch accepts memory of a GPU too, numpy only that of the CPU. Read-only memory stays
            read-only in numpy. Torch has no read-only tensors, so read-only numpy arrays are refused; for other
            libraries' read-only arrays, that library and torch decide.

    Raises:
        LeafError: an array cannot be shared; the error names it.
        SettingError: ``into`` is neither ``"numpy"`` nor ``"torch"``.
        StructureError: mappings are nested more than 100 deep.
    """
    if into not in ("numpy", "torch"):
        raise SettingError(f"into= is 'numpy' or 'torch', got {into!r}")
    take: Callable[[Any], Any] = np.from_dlpack if into == "numpy" else torch_side().torch.from_dlpack
    if not isinstance(fields, Mapping):
        raise LeafError(f"from_dlpack() takes a mapping from names to arrays, got {describe(fields)}")
    require_depth(fields, lambda value: value if isinstance(value, Mapping) else None)
    return _share(fields, take, into)


def _share(fields: Mapping[str, Any], take: Callable[[Any], Any], into: str) -> Batch:
    require_names(fields)
    out: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            if isinstance(value, Mapping):
                out[name] = _share(value, take, into)
            elif hasattr(value, "__dlpack__"):
                if isinstance(value, np.ma.MaskedArray):
                    raise BufferError("its mask would be lost; fill it, and share the mask too")
                if isinstance(value, np.ndarray) and into == "torch":
                    if not value.flags.writeable:
                        raise BufferError("it is read-only, which tensors cannot be; copy() it first")
                    if any(stride < 0 for stride in value.strides):  # torch would abort the whole process
                        raise BufferError("it has negative strides, which tensors do not support; copy() it first")
                out[name] = take(value)
            else:
                raise LeafError(f"{describe(value)} has no __dlpack__")
        except TypedBatchError as error:
            raise error.under(name) from error.__cause__
        except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise LeafError(f"{describe(value)} cannot be shared with {into}: {error}", name) from error
    return new_tree(Batch, out)


def to_dlpack(batch: Any) -> dict[str, Any]:
    """Return the fields as a dict of arrays and tensors for other libraries: ``jax.numpy.from_dlpack(fields["obs"])``.

    Args:
        batch: A batch of numbers. Nested batches become dicts. Tensors are detached from their gradients.

    Raises:
        LeafError: a field has objects, text, dates, a distribution or a mask; the error names it.
        StructureError: batches are nested more than 100 deep.
    """
    fields: dict[str, Any] = _export(require_bounded(batch, "to_dlpack()"))
    return fields


def _export(value: Any) -> Any:
    kind = KINDS[type(value)]
    if kind is BATCH:
        return for_each(value.__dict__, _export)
    if kind is TENSOR:
        return value.detach().resolve_conj().resolve_neg()
    if kind is not ARRAY or value.dtype.kind not in "biufc" or isinstance(value, np.ma.MaskedArray):
        raise LeafError(f"{describe(value)} cannot be exported by DLPack, which supports only plain arrays of numbers")
    return value
