"""Torch distributions as leaves of a batch: index, concatenate, stack, map and compare them.

A distribution is taken apart into the parameters of its constructor, which are read from public attributes of the same
names, and is built again from parameters that were indexed, joined or mapped. The operations differ only in the
function that combines the tensors of one parameter. Parameters keep their last bits: ``probs`` and ``logits``, which
constructors normalize, are set as they were, and a covariance is passed as its factor. What a constructor derives from
its parameters is computed again.

A distribution or transform class of your own is supported if it follows torch's pattern: each parameter of the
constructor is an attribute of the same name (an underscore may precede it), which the constructor stores without
changing values. Parameters are tensors, distributions, transforms, lists of these, and settings that all rows share.
The event dimensions of a tensor are found from ``arg_constraints[name].event_dim``, else from the batch shape that it
starts with, else from the event shape that it ends with. A tensor of a transform broadcasts against the values that the
transform receives. Any other tensor is a constant that all rows share.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Size, Tensor
from torch.distributions import (
    AffineTransform,
    CatTransform,
    Distribution,
    ExpTransform,
    RelaxedOneHotCategorical,
    StackTransform,
    Transform,
)
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.distributions.utils import lazy_property

from typedbatch._report import cut
from typedbatch.errors import LeafError, NoLengthError, RowIndexError, StructureError

DistT = TypeVar("DistT", bound=Distribution)

_BUILDING: Final = threading.Lock()
_MISSING: Final = object()
_INVERSE: Final = type(ExpTransform().inv)
_ATTRIBUTES: Final = {"base_distribution": "base_dist", "tseq": "transforms"}
"""Attributes of torch's classes whose names differ from the parameters of the constructors."""
_ONE_TEMPERATURE: Final = (RelaxedOneHotCategorical, ExpRelaxedCategorical)
"""Classes whose ``log_prob`` is wrong with one temperature per row."""
_PROBS: Final = ("probs", "logits")
_MATRICES: Final = ("scale_tril", "covariance_matrix", "precision_matrix")
"""Parameters of which a constructor takes one; torch computes the others on demand, and stores them."""


class _Op(NamedTuple):
    """An operation on distributions.

    Attributes:
        batches: Batch shape of each distribution.
        changes_rows: Whether the result has another batch shape.
        tensor: Function that combines the tensors of one attribute into one. Its arguments are the name of the
            attribute, the tensors, and the numbers of their last dimensions that are loose (they broadcast) and event
            dimensions (they do not), or None in place of the latter for a constant.
        builds: Whether a new distribution is wanted, and not only a comparison.
    """

    batches: list[Size]
    changes_rows: bool
    tensor: Callable[[str, Sequence[Tensor], int, int | None], Tensor]
    builds: bool = True


def get_sliced_dist(dist: DistT, index: object) -> DistT:
    """Return rows of a distribution.

    Args:
        dist: Any distribution; it is not changed.
        index: Any index of numpy or torch. It applies to the batch dimensions only, and ``...`` stands for all of them
            that have no index of their own. Slices may have a negative step. An int beside an array is taken first, as
            in torch.

    Returns:
        A distribution of the same type, whose ``batch_shape`` is that of ``torch.empty(dist.batch_shape)[index]``.
        Ints, ``None``, ``...`` and slices with a positive step give views of the parameters, where the constructor
        stores them unchanged; anything else gives copies.

    Raises:
        RowIndexError: There are too many indices, one is out of range, or one is not an index.
        LeafError: A transform inside works along a batch dimension, or the class cannot be built from its attributes.
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
        items, backwards = _torch_index(index, batch)
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
        _merge([a, b], _Op([a.batch_shape, b.batch_shape], False, same, builds=False), 0)
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


def _torch_index(index: object, batch: Size) -> tuple[list[Any], list[tuple[int, Tensor]]]:
    """Return an index that torch accepts, and the rows per dimension of slices that step backward, which it refuses."""
    items: list[Any] = []
    used: list[int] = []  # Number of dimensions that each item indexes.
    for item in index if isinstance(index, tuple) else (index,):
        if not (item is None or item is ... or isinstance(item, int | slice | Tensor)):
            array = np.array(item)
            if array.dtype.kind not in "biu" and not (isinstance(item, Sequence) and array.size == 0):
                raise IndexError(f"{type(item).__name__} of {array.dtype} is not an index")
            item = torch.from_numpy(array.astype(bool if array.dtype.kind == "b" else np.int64))
        if isinstance(item, Tensor) and item.ndim == 0 and item.dtype != torch.bool and not item.is_floating_point():
            item = int(item)
        if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8):
            used.append(item.ndim)
        else:
            used.append(0 if item is None or item is ... or isinstance(item, bool) else 1)
        items.append(item)
    ellipses = [i for i, item in enumerate(items) if item is ...]
    rest = len(batch) - sum(used)
    if rest < 0 or len(ellipses) > 1:
        raise IndexError(f"it indexes {sum(used)} dimensions and has {len(ellipses)} ellipses")
    at = ellipses[0] if ellipses else len(items)
    items[at : at + 1], used[at : at + 1] = [slice(None)] * rest, [1] * rest
    backwards = []
    for i, (item, dim) in enumerate(zip(items, accumulate(used, initial=0), strict=False)):
        if isinstance(item, slice) and item.step is not None and item.step < 0:
            backwards.append((dim, torch.from_numpy(np.arange(batch[dim])[item].copy())))
            items[i] = slice(None)
    return items, backwards


def _merge(nodes: Sequence[Any], op: _Op, extra: int) -> Any:
    """Return a new distribution or transform, made of what ``op`` makes of each parameter of ``nodes``.

    ``extra`` is the number of dimensions to the right of the rows: for a distribution those in its own batch shape, for
    a transform those of the values that it receives.
    """
    first, name = nodes[0], type(nodes[0]).__name__
    for node in nodes:
        if type(node) is not type(first):
            raise StructureError(f"cannot combine {name} and {type(node).__name__}")
        if isinstance(first, Distribution) and node.event_shape != first.event_shape:
            both = f"{tuple(first.event_shape)} and {tuple(node.event_shape)}"
            raise StructureError(f"cannot combine {name} with event_shape {both}")
    if isinstance(first, StackTransform | CatTransform) and op.changes_rows and not -extra <= first.dim < 0:
        raise LeafError(f"{name} with dim={first.dim} has no rows: dim must be negative and in the event shape")
    if isinstance(first, _INVERSE):
        grown = first.inv.codomain.event_dim - first.inv.domain.event_dim
        return _merge([node.inv for node in nodes], op, extra - grown).inv
    kind: Any = type(first)
    names = _parameters(kind)
    # Of the parameters that torch computes from each other, a new distribution gets all that are stored, the given one
    # first. A comparison looks at the given ones only, so that it does not depend on what was computed meanwhile.
    probs, matrices = ([name for name in group if name in names] for group in (_PROBS, _MATRICES))
    given = matrices[:1]
    for node in nodes:
        stored = [name for name in _stored(node) if name in probs] or probs
        given += stored if op.builds else stored[:1]
        given += [name for name in matrices if op.builds and name in vars(node)]
    keys = [*(name for name in names if name not in _PROBS + _MATRICES), *dict.fromkeys(given)]
    merged = {key: _merge_parameter(nodes, key, op, extra) for key in keys}
    return _build(first, merged) if op.builds else first


@lru_cache(maxsize=256)
def _parameters(kind: type) -> list[str]:
    """Return the parameters of a constructor; with ``**kwargs`` also those that ``arg_constraints`` declares."""
    found = inspect.signature(kind).parameters.values()
    names = [one.name for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    declared = getattr(kind, "arg_constraints", None)
    if isinstance(declared, dict) and any(one.kind is one.VAR_KEYWORD for one in found):
        names += declared
    return [name for name in dict.fromkeys(names) if name != "validate_args"]


def _stored(node: Any) -> dict[str, Any]:
    """Return the attributes of the part that stores ``probs`` or ``logits``: the node, or a distribution in it."""
    state: dict[str, Any] = vars(node)
    if any(name in state for name in _PROBS):
        return state
    wrapped = (_stored(value) for value in state.values() if isinstance(value, Distribution))
    return next((found for found in wrapped if found), {})


def _build(first: Any, merged: dict[str, Any]) -> Any:
    kind, arguments = type(first), dict(merged)
    for group in (_PROBS, _MATRICES):  # The constructor takes one of each.
        for name in [name for name in merged if name in group][1:]:
            del arguments[name]
    with _BUILDING:  # Neither a constructor nor one that it calls validates what was valid before.
        default = Distribution._validate_args  # noqa: SLF001  # Torch has a public setter only.
        Distribution.set_default_validate_args(False)
        try:
            new = kind(**arguments)
        except (AssertionError, AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise LeafError(f"{kind.__name__} cannot be built again from {', '.join(merged)}: {error}") from error
        finally:
            Distribution.set_default_validate_args(default)
    if isinstance(first, Distribution):
        vars(new).update((name, value) for name, value in vars(first).items() if name == "_validate_args")
        for group, state in ((_PROBS, _stored(new)), (_MATRICES, vars(new))):
            state.update((name, value) for name, value in merged.items() if name in group)
    for name in vars(first).keys() - vars(new).keys():
        if not name.startswith("_") and not isinstance(getattr(kind, name, None), lazy_property | cached_property):
            raise LeafError(f"{kind.__name__}.{name} would be lost, since its constructor does not set it")
    return new


def _merge_parameter(nodes: Sequence[Any], key: str, op: _Op, extra: int) -> Any:
    kind, name = type(nodes[0]).__name__, _ATTRIBUTES.get(key, key)
    owners = map(copy, nodes) if key in _PROBS + _MATRICES else nodes  # A copy is what stores a computed value.
    values: list[Any] = [getattr(owner, name, getattr(owner, f"_{name}", _MISSING)) for owner in owners]
    if any(value is _MISSING for value in values):
        raise LeafError(f"{kind} cannot be taken apart: its constructor takes {key!r}, which is not an attribute of it")
    first = values[0]
    parts = first if isinstance(first, list | tuple) else []
    if not any(isinstance(part, Tensor | Distribution | Transform) for part in parts):
        return _merge_values(nodes, name, values, op, _dims_right(nodes[0], extra, [first])[0])
    if any(type(value) is not type(first) or len(value) != len(first) for value in values):
        raise StructureError(f"{kind}.{name} differs in kind or length")
    dims = _dims_right(nodes[0], extra, parts)
    columns = zip(zip(*values, strict=True), dims, strict=True)
    return type(first)(_merge_values(nodes, name, column, op, dim) for column, dim in columns)


def _merge_values(nodes: Sequence[Any], key: str, values: Sequence[Any], op: _Op, extra: int) -> Any:
    owner, first, where = nodes[0], values[0], f"{type(nodes[0]).__name__}.{key}"
    if isinstance(first, Distribution | Transform):
        return _merge(values, op, extra)
    likes = [value for value in values if isinstance(value, Tensor)]
    with suppress(RuntimeError, TypeError, ValueError):  # Values of foreign classes may refuse to be compared.
        if not likes and all(first is value or np.array_equal(first, value) for value in values):
            return first
    if isinstance(owner, AffineTransform) and key in ("loc", "scale"):  # Numbers may differ, and then become tensors.
        likes += [value for node in nodes for value in (node.loc, node.scale) if isinstance(value, Tensor)]
    if not likes or not all(isinstance(value, Tensor | int | float) for value in values):
        raise StructureError(f"{where} differs: {' and '.join(cut(repr(value), 100) for value in values)}")
    tensors = [value if isinstance(value, Tensor) else likes[0].new_tensor(value) for value in values]
    if isinstance(owner, Transform):
        event = 0 if _fits(tensors[0], op.batches[0], extra) else None
    else:
        event = _event_dim(owner, key, tensors[0])
    return op.tensor(where, tensors, extra, event)


def _dims_right(owner: Any, extra: int, values: Sequence[Any]) -> list[int]:
    """Return ``extra`` for each of these values of ``owner``; several transforms form a chain."""
    if not all(isinstance(value, Transform) for value in values):
        if not isinstance(owner, Distribution):
            return [extra] * len(values)
        sizes = [len(value.batch_shape) if isinstance(value, Distribution) else 0 for value in values]
        return [extra + max(0, size - len(owner.batch_shape)) for size in sizes]
    if isinstance(owner, StackTransform | CatTransform):
        return [extra - isinstance(owner, StackTransform)] * len(values)
    grown = [value.codomain.event_dim - value.domain.event_dim for value in values]
    if isinstance(owner, Distribution):
        extra += len(owner.event_shape) - sum(grown)
    return list(accumulate(grown[:-1], initial=extra))


def _event_dim(dist: Distribution, key: str, tensor: Tensor) -> int | None:
    """Return the number of last dimensions that are event dimensions, or None for a constant."""
    if key == "temperature" and isinstance(dist, _ONE_TEMPERATURE) and tensor.numel() == 1:
        return None
    batch, guesses = dist.batch_shape, [len(dist.event_shape)]
    if tensor.shape[: len(batch)] == batch:
        guesses.insert(0, tensor.ndim - len(batch))
    with suppress(AttributeError, NotImplementedError):  # It is not declared, or only as dependent.
        declared: Any = dist.arg_constraints.get(key)
        guesses.insert(0, declared.event_dim)
    return next((guess for guess in guesses if _fits(tensor, batch, guess)), None)


def _fits(tensor: Tensor, batch: Size, last: int) -> bool:
    """Return whether a tensor without its last dimensions broadcasts to a batch shape."""
    own = tensor.shape[: max(0, tensor.ndim - last)]
    return len(own) <= len(batch) and all(x in (1, y) for x, y in zip(own[::-1], batch[::-1], strict=False))
