"""Torch distributions as leaves of a batch: index, concatenate, stack, map and compare them.

No constructor runs, because it would normalize probabilities and factorize covariances again, which changes last bits.
One function, :func:`_merge`, walks through the attributes of one or more distributions of the same type, and through
their parts, and builds a new distribution. The operations differ only in the function that combines the tensors of one
attribute. Values that torch computes lazily and that are not parameters are left out, since torch computes them again
on demand.

A distribution class of your own is supported if its state is in its ``__dict__``, as in torch's classes: tensors,
distributions and transforms, also in lists, tuples and dicts. The event dimensions of a tensor are found from
``arg_constraints[name].event_dim``, else from the batch shape that it starts with, else from the event shape that it
ends with. A tensor of a transform broadcasts against the values that the transform receives. Any other tensor is a
constant that all rows share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Size, Tensor
from torch.distributions import AffineTransform, CatTransform, Distribution, StackTransform, Transform
from torch.distributions.constraints import Constraint
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.distributions.transforms import _InverseTransform
from torch.distributions.utils import lazy_property

from typedbatch._report import cut
from typedbatch.errors import LeafError, NoLengthError, RowIndexError, StructureError

DistT = TypeVar("DistT", bound=Distribution)

# Event dimensions of attributes that torch stores beside its declared parameters, not broadcast to the batch shape.
_EVENT_DIMS = {
    "_unbroadcasted_cov_factor": 2,
    "_unbroadcasted_cov_diag": 1,
    "_unbroadcasted_scale_tril": 2,
    "_capacitance_tril": 2,
}
_BOOKKEEPING = {"_batch_shape", "_batch_dims", "_validate_args", "_cache_size", "_cached_x_y"}


class _Op(NamedTuple):
    """An operation on distributions.

    Attributes:
        batches: Batch shape of each distribution.
        changes_rows: Whether the result has another batch shape.
        tensor: Function that combines the tensors of one attribute into one. Its arguments are the name of the
            attribute, the tensors, and the numbers of their last dimensions that are loose (they broadcast) and event
            dimensions (they do not), or None in place of the latter for a constant.
    """

    batches: list[Size]
    changes_rows: bool
    tensor: Callable[[str, Sequence[Tensor], int, int | None], Tensor]


def get_sliced_dist(dist: DistT, index: object) -> DistT:
    """Return rows of a distribution.

    Args:
        dist: Any distribution; it is not changed.
        index: Any index of numpy or torch. It applies to the batch dimensions only, and ``...`` stands for all of them
            that have no index of their own. Slices may have a negative step. An int beside an array is taken first, as
            in torch.

    Returns:
        A distribution of the same type, whose ``batch_shape`` is that of ``torch.empty(dist.batch_shape)[index]``.
        Ints, ``None``, ``...`` and slices with a positive step give views of the parameters; anything else gives
        copies. A parameter that is stored once for all rows stays the same object.

    Raises:
        RowIndexError: There are too many indices, one is out of range, or one is not an index.
        LeafError: A transform inside works along a batch dimension.
    """
    batch = dist.batch_shape

    def take(where: str, tensors: Sequence[Tensor], loose: int, event: int | None) -> Tensor:
        (tensor,) = tensors
        if event is None or (batch and tensor.ndim <= loose + event):
            return tensor
        (tensor,) = _align([tensor], [batch], loose, event)
        for dim, rows in backwards:
            tensor = tensor.index_select(dim, rows.to(tensor.device))
        return tensor[tuple(item.to(tensor.device) if isinstance(item, Tensor) else item for item in items)]

    try:
        items, backwards = _normal_index(index, batch)
        # A wrong index has to fail here, on the CPU: on a GPU it would break the CUDA context.
        take("", [torch.empty(()).expand(batch)], 0, 0)
    except (IndexError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        what = f"{type(dist).__name__} with batch_shape {tuple(batch)}"
        raise RowIndexError(f"index {cut(repr(index), 100)} does not fit {what}: {error}") from error
    result: DistT = _merge([dist], _Op([batch], True, take), 0)
    return result


def dist_to_atleast_2d(dist: DistT) -> DistT:
    """Return ``dist`` itself if it has a batch dimension, else views of its parameters with batch shape ``(1,)``."""
    return dist if dist.batch_shape else get_sliced_dist(dist, None)


def cat_dists(dists: Sequence[DistT]) -> DistT:
    """Concatenate distributions along their first batch dimension.

    Args:
        dists: One or more distributions. Type, event shape, settings such as ``total_count``, and the batch shape
            after its first size must be the same.

    Returns:
        A new distribution with parameters of its own; those that were stored once for all rows are stored for each row.
        If some ``dists`` were built from ``probs`` and others from ``logits``, it has both, so that nothing is lost.

    Raises:
        StructureError: The distributions differ in one of these; the error names it.
        LeafError: A transform inside works along a batch dimension.
    """
    if not all(dist.batch_shape for dist in dists):
        raise StructureError("a distribution with batch_shape () has no rows to concatenate; stack it instead")
    return _join(dists, torch.cat, 0, [dist.batch_shape[1:] for dist in dists])


def stack_dists(dists: Sequence[DistT], axis: int = 0) -> DistT:
    """Stack distributions along a new batch dimension.

    Args:
        dists: One or more distributions. Type, event shape, settings and batch shape must be the same.
        axis: Position of the new dimension in the new batch shape; a negative one counts from the end.

    Returns:
        A new distribution with parameters of its own, as from :func:`cat_dists`.

    Raises:
        StructureError: The distributions differ in one of these, or ``axis`` is out of range.
        LeafError: A transform inside works along a batch dimension.
    """
    ndim = len(dists[0].batch_shape) + 1 if dists else 1
    if not -ndim <= axis < ndim:
        raise StructureError(f"axis {axis} is out of range for a stack with {ndim} batch dimensions")
    return _join(dists, torch.stack, axis % ndim, [dist.batch_shape for dist in dists])


def get_len_of_dist(dist: Distribution) -> int:
    """Return the first size of the batch shape.

    Raises:
        NoLengthError: The batch shape is ``()``.
    """
    if not dist.batch_shape:
        raise NoLengthError(f"{type(dist).__name__} with batch_shape () has no length")
    return dist.batch_shape[0]


def map_dist(dist: DistT, f: Callable[[Tensor], Tensor]) -> DistT:
    """Apply ``f`` to each tensor of a distribution, also in transforms, as in ``map_dist(dist, torch.clone)``.

    Args:
        dist: Any distribution; it is not changed.
        f: Function of a tensor that returns a tensor of the same shape.

    Returns:
        A new distribution.
    """
    op = _Op([dist.batch_shape], False, lambda where, tensors, loose, event: f(tensors[0]))
    result: DistT = _merge([dist], op, 0)
    return result


def dists_equal(a: object, b: object, same_values: Callable[[Tensor, Tensor], bool] | None = None) -> bool:
    """Return whether two distributions have the same type, shapes, settings and, to the last bit, parameters.

    Dtype and device count, and NaN differs from NaN. It does not count whether a parameter is stored once or for each
    row. ``same_values``, if given, compares parameters instead. This never raises: an object that is not a distribution
    is not equal to anything.
    """
    if not isinstance(a, Distribution) or not isinstance(b, Distribution):
        return False

    def same(where: str, tensors: Sequence[Tensor], loose: int, event: int | None) -> Tensor:
        x, y = tensors if event is None else _align(tensors, [a.batch_shape, b.batch_shape], loose, event)
        if not (same_values(x, y) if same_values else x.dtype == y.dtype and torch.equal(x, y)):
            raise StructureError(f"{where} differs")
        return x

    try:
        _merge([a, b], _Op([a.batch_shape, b.batch_shape], False, same), 0)
        return a.batch_shape == b.batch_shape
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # A foreign class may raise anything, and a comparison must not raise.
        return False


def _join(dists: Sequence[DistT], join: Callable[[list[Tensor], int], Tensor], axis: int, shapes: list[Size]) -> DistT:
    if not dists:
        raise StructureError("one or more distributions can be combined, got an empty list")
    for dist, shape in zip(dists, shapes, strict=True):
        if shape != shapes[0]:
            both = f"{tuple(dists[0].batch_shape)} and {tuple(dist.batch_shape)}"
            raise StructureError(f"cannot combine {type(dist).__name__} with batch_shape {both}")
    batches = [dist.batch_shape for dist in dists]

    def joined(where: str, tensors: Sequence[Tensor], loose: int, event: int | None) -> Tensor:
        if event is None:
            if any(not torch.equal(tensors[0], tensor) for tensor in tensors):
                raise StructureError(f"{where} differs, but all rows have to share one value")
            return tensors[0].clone()
        try:
            return join(_align(tensors, batches, loose, event), axis)
        except (RuntimeError, ValueError) as error:
            raise StructureError(f"{where} differs: {error}") from error

    result: DistT = _merge(dists, _Op(batches, True, joined), 0)
    return result


def _align(tensors: Sequence[Tensor], batches: Sequence[Size], loose: int, event: int) -> list[Tensor]:
    """Return views of shape ``batch + middle + event``, with the same middle of ``loose`` dimensions for all."""
    last = [((1,) * (loose + event) + tuple(tensor.shape))[tensor.ndim :] for tensor in tensors]
    middle = np.broadcast_shapes(*(shape[:loose] for shape in last))
    return [t.expand((*b, *middle, *shape[loose:])) for t, b, shape in zip(tensors, batches, last, strict=True)]


def _normal_index(index: object, batch: Size) -> tuple[list[Any], list[tuple[int, Tensor]]]:
    """Return an index that torch accepts, and the rows per dimension of slices that step backward, which it refuses."""
    items = [_normal_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    used, ellipses = sum(_dims_used(item) for item in items), [i for i, item in enumerate(items) if item is ...]
    if used > len(batch) or len(ellipses) > 1:
        raise IndexError(f"it indexes {used} dimensions and has {len(ellipses)} ellipses")
    at = ellipses[0] if ellipses else len(items)
    items[at : at + 1] = [slice(None)] * (len(batch) - used)
    dim, backwards = 0, []
    for i, item in enumerate(items):
        if isinstance(item, slice) and item.step is not None and item.step < 0:
            backwards.append((dim, torch.from_numpy(np.arange(batch[dim])[item].copy())))
            items[i] = slice(None)
        dim += _dims_used(item)
    return items, backwards


def _dims_used(item: object) -> int:
    if item is None or item is ... or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8) else 1


def _normal_item(item: Any) -> Any:
    if item is None or item is ... or isinstance(item, int | slice):
        return item
    if not isinstance(item, Tensor):
        array = np.array(item)
        if array.dtype.kind not in "biu" and not (isinstance(item, Sequence) and array.size == 0):
            raise IndexError(f"{type(item).__name__} of {array.dtype} is not an index")
        item = torch.from_numpy(array.astype(bool if array.dtype.kind == "b" else np.int64))
    is_int = item.ndim == 0 and item.dtype != torch.bool and not item.is_floating_point()
    return int(item) if is_int else item


def _merge(nodes: Sequence[Any], op: _Op, extra: int) -> Any:
    """Return a new distribution or transform, built from ``nodes`` attribute by attribute.

    ``extra`` is the number of dimensions to the right of the rows: for a distribution those in its own batch shape, for
    a transform those of the values that it receives.
    """
    _require_alike(nodes)
    first, name = nodes[0], type(nodes[0]).__name__
    if isinstance(first, StackTransform | CatTransform) and op.changes_rows and not -extra <= first.dim < 0:
        raise LeafError(f"{name} with dim={first.dim} has no rows: dim must be negative and in the event shape")
    new = object.__new__(type(first))
    state = vars(new)
    state.update((key, value) for key, value in vars(first).items() if key in _BOOKKEEPING)
    if isinstance(first, Distribution) and op.changes_rows:
        blanks = [torch.empty(()).expand(node.batch_shape) for node in nodes]
        state["_batch_shape"] = op.tensor(f"{name}.batch_shape", blanks, extra, 0).shape
    if "_batch_dims" in state:  # Wishart has it.
        state["_batch_dims"] = [-1 - dim for dim in range(len(state["_batch_shape"]))]
    if isinstance(first, Transform):
        state.update({"_inv": None} | {key: (None, None) for key in ("_cached_x_y",) if key in state})
    for key, values in _attributes(nodes, op):
        state[key] = _merge_attribute(nodes, key, values, op, extra)
    state.update([("_param", state[key]) for key in _aliases(first) if key in state])
    return new


def _require_alike(nodes: Sequence[Any]) -> None:
    first, name = nodes[0], type(nodes[0]).__name__
    for node in nodes:
        if type(node) is not type(first):
            raise StructureError(f"cannot combine {name} and {type(node).__name__}")
        if isinstance(first, Distribution) and node.event_shape != first.event_shape:
            both = f"{tuple(first.event_shape)} and {tuple(node.event_shape)}"
            raise StructureError(f"cannot combine {name} with event_shape {both}")


def _attributes(nodes: Sequence[Any], op: _Op) -> Iterator[tuple[str, list[Any]]]:
    """Yield the attributes that make up a node, each with its value in every node."""
    kind, states = type(nodes[0]), [_state(node) for node in nodes]
    everywhere = set(states[0]).intersection(*states)
    somewhere = dict.fromkeys(key for state in states for key in state)
    lazy = {key for key in somewhere if isinstance(getattr(kind, key, None), lazy_property)}
    derived: set[str] = set()
    if len(nodes) > 1 and not op.changes_rows:  # A comparison must not depend on which lazy values exist already.
        given = {key for node in nodes for key in _aliases(node)} or (lazy & everywhere) or lazy
        derived = lazy if "_unbroadcasted_scale_tril" in everywhere else lazy - given
    for key in somewhere:
        if key in everywhere and key not in derived:
            yield key, [state[key] for state in states]
        elif key in lazy and key not in derived:
            yield key, [getattr(copy(node), key) for node in nodes]  # The copy is what stores the computed value.
        elif key not in lazy and not key.startswith("_"):  # A private one, as Multinomial._binomial, is derived.
            raise StructureError(f"not every {kind.__name__} has the attribute {key!r}")


def _state(node: Any) -> dict[str, Any]:
    """Return the attributes without bookkeeping, aliases, back references and caches."""
    skip = {*_BOOKKEEPING, *(["_param"] if _aliases(node) else [])}
    if isinstance(node, Transform) and not isinstance(node, _InverseTransform):
        skip.add("_inv")
    declared, lazy = _constraints(node), (lazy_property, cached_property)
    return {
        key: value
        for key, value in vars(node).items()
        if key not in skip and (key in declared or not isinstance(getattr(type(node), key, None), lazy))
    }


def _aliases(node: Any) -> list[str]:
    """Return the attributes, one at most, that torch also stores as ``_param``."""
    return [key for key in ("probs", "logits") if vars(node).get(key) is vars(node).get("_param", node)]


def _merge_attribute(nodes: Sequence[Any], key: str, values: list[Any], op: _Op, extra: int) -> Any:
    first, kind = values[0], type(values[0])
    parts = list(first.values()) if isinstance(first, dict) else first if isinstance(first, list | tuple) else []
    if not any(isinstance(part, Tensor | Distribution | Transform) for part in parts):
        return _merge_values(nodes, key, values, op, _dims_right(nodes[0], extra, [first])[0])
    keys = list(first) if isinstance(first, dict) else range(len(first))
    if any(type(value) is not kind or len(value) != len(first) for value in values):
        raise StructureError(f"{type(nodes[0]).__name__}.{key} differs in kind or length")
    dims = _dims_right(nodes[0], extra, parts)
    merged = [_merge_values(nodes, key, [v[k] for v in values], op, dim) for k, dim in zip(keys, dims, strict=True)]
    return kind(zip(first, merged, strict=True) if isinstance(first, dict) else merged)


def _merge_values(nodes: Sequence[Any], key: str, values: Sequence[Any], op: _Op, extra: int) -> Any:
    owner, first, where = nodes[0], values[0], f"{type(nodes[0]).__name__}.{key}"
    if isinstance(first, Distribution | Transform):
        return _merge(values, op, extra)
    likes = [value for value in values if isinstance(value, Tensor)]
    if not likes and all(_is_same(first, value) for value in values):
        return first
    if isinstance(owner, AffineTransform):  # Its numbers may differ between nodes, and then become tensors.
        likes += [value for node in nodes for value in (node.loc, node.scale) if isinstance(value, Tensor)]
    if not likes or not all(isinstance(value, Tensor | int | float) for value in values):
        raise StructureError(f"{where} differs: {' and '.join(cut(repr(value), 100) for value in values)}")
    tensors = [value if isinstance(value, Tensor) else likes[0].new_tensor(value) for value in values]
    if isinstance(owner, Transform):
        event = 0 if _fits(tensors[0], op.batches[0], extra) else None
    else:
        event = _event_dim(owner, key, tensors[0])
    return op.tensor(where, tensors, extra, event)


def _is_same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(np.array_equal(a, b))
    except (RuntimeError, TypeError, ValueError):
        return False


def _dims_right(owner: Any, extra: int, values: Sequence[Any]) -> list[int]:
    """Return ``extra`` for each of these values of ``owner``; several transforms form a chain."""
    if not all(isinstance(value, Transform) for value in values):
        return [extra + _more_batch_dims(value, owner) for value in values]
    if isinstance(owner, StackTransform | CatTransform):
        return [extra - isinstance(owner, StackTransform)] * len(values)
    grown = [value.codomain.event_dim - value.domain.event_dim for value in values]
    if isinstance(owner, Distribution):
        extra += len(owner.event_shape) - sum(grown)
    elif isinstance(owner, _InverseTransform):
        extra -= sum(grown)
    return list(accumulate(grown[:-1], initial=extra))


def _more_batch_dims(part: Any, owner: Any) -> int:
    if isinstance(part, Distribution) and isinstance(owner, Distribution):
        return max(0, len(part.batch_shape) - len(owner.batch_shape))
    return 0


def _event_dim(dist: Distribution, key: str, tensor: Tensor) -> int | None:
    """Return the number of last dimensions that are event dimensions, or None for a constant."""
    if isinstance(dist, ExpRelaxedCategorical) and key == "temperature" and tensor.numel() == 1:
        return None  # Its log_prob is wrong with one temperature per row.
    batch, guesses = dist.batch_shape, [len(dist.event_shape)]
    if tensor.shape[: len(batch)] == batch:
        guesses.insert(0, tensor.ndim - len(batch))
    if key in _EVENT_DIMS:
        guesses.insert(0, _EVENT_DIMS[key])
    with suppress(KeyError, NotImplementedError):  # The attribute is not declared, or only as dependent.
        guesses.insert(0, _constraints(dist)[key].event_dim)
    return next((guess for guess in guesses if _fits(tensor, batch, guess)), None)


def _fits(tensor: Tensor, batch: Size, last: int) -> bool:
    """Return whether a tensor without its last dimensions broadcasts to a batch shape."""
    own = tensor.shape[: max(0, tensor.ndim - last)]
    return len(own) <= len(batch) and all(x in (1, y) for x, y in zip(own[::-1], batch[::-1], strict=False))


def _constraints(node: Any) -> dict[str, Constraint]:
    try:
        return node.arg_constraints  # type: ignore[no-any-return]
    except (AttributeError, NotImplementedError):
        return {}
