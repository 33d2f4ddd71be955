"""Tags: what is known about where the values of an array or tensor come from, and what operations make of it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

ADVANTAGES: Final = frozenset({"adv", "advantages", "advantage", "advs"})
RETURNS: Final = frozenset({"returns", "return_", "ret", "value_targets"})
REWARDS: Final = frozenset({"rew", "reward", "rewards"})
SCORES: Final = frozenset({"score", "scores"})
TERMINATED: Final = frozenset({"terminated"})
TRUNCATED: Final = frozenset({"truncated"})
NEXT_OBS: Final = frozenset({"obs_next", "next_obs"})
OBS: Final = frozenset({"obs"})
OLD_LOGP: Final = frozenset(
    {"logp_old", "old_logp", "logp", "old_log_probs", "log_prob", "log_probs", "logprobs", "old_logprobs"}
)
ROLLOUT_LOGP: Final = frozenset({"rollout_logp", "rollout_log_probs", "sampler_logp", "behavior_logp"})
REF_LOGP: Final = frozenset({"ref_logp", "ref_log_prob", "ref_chosen_logp", "ref_rejected_logp", "teacher_logp"})
LOSS_MASKS: Final = frozenset({"loss_mask"})
MASKS: Final = frozenset({"loss_mask", "response_mask", "chosen_mask", "rejected_mask", "prompt_mask", "mask"})
TOKENS: Final = frozenset({"response_ids", "chosen_ids", "rejected_ids", "input_ids", "prompt_ids"})
MUST_READ: Final = OLD_LOGP | ADVANTAGES | frozenset({"weight"})
"""Fields that are of no use but in a loss."""


IGNORED: Final = frozenset(
    {
        "size", "dim", "numel", "ndimension", "__len__", "__bool__", "is_floating_point", "is_complex", "tolist",
        "item", "stride", "storage_offset", "element_size", "data_ptr", "is_contiguous", "get_device", "__repr__",
        "__format__", "_set_grad_enabled", "_record_function_enter_new", "_record_function_exit._RecordFunction",
        "__get__", "__set__", "is_nonzero", "equal", "allclose", "_is_all_true", "type", "has_names", "requires_grad_",
        "zero_", "__hash__",
        "register_hook", "retain_grad", "__setstate__", "__reduce_ex__", "is_same_size", "untyped_storage", "is_set_to",
        "__contains__", "__deepcopy__", "is_inference", "zeros_like", "ones_like", "empty_like", "full_like",
        "rand_like", "randn_like", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "randint_like",
    }
)  # fmt: skip
"""Operations whose result is not a tensor, or does not depend on the values of its inputs."""

COPYING: Final = frozenset(
    {
        "to", "float", "double", "half", "bfloat16", "long", "int", "bool", "cpu", "cuda", "detach", "detach_", "clone",
        "contiguous", "as_tensor", "tensor", "from_numpy", "numpy", "__array__", "view", "reshape", "flatten", "ravel",
        "squeeze", "unsqueeze", "unflatten", "expand", "data", "type_as", "pin_memory", "__getitem__", "index_select",
        "view_as", "reshape_as", "cat", "concat", "asarray", "broadcast_to", "expand_as", "broadcast_tensors", "alias",
        "T", "mT", "transpose", "t", "nan_to_num", "masked_select", "narrow", "select", "split", "chunk", "pad",
        "stack",
    }
)  # fmt: skip
"""Operations whose result has the values of the first argument, or some of them."""

ELEMENTWISE: Final = frozenset(
    {
        "add", "sub", "mul", "div", "rsub", "true_divide", "subtract", "multiply", "divide", "floor_divide", "pow",
        "__add__", "__sub__", "__mul__", "__truediv__", "__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rdiv__",
        "__div__", "__and__", "__or__", "__xor__", "__pow__", "__rpow__", "add_", "sub_", "mul_", "div_", "__iadd__",
        "__isub__", "__imul__", "__itruediv__", "min", "max", "minimum", "maximum", "fmin", "fmax", "where", "lerp",
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "gaussian_nll_loss",
        "binary_cross_entropy_with_logits", "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "masked_fill",
        "addcmul", "addcdiv", "atan2", "logaddexp", "clamp", "clip", "logical_and", "logical_or", "xlogy",
    }
)  # fmt: skip
"""Operations that broadcast their tensors and combine them value by value."""

DIFFERENCES: Final = frozenset({"sub", "__sub__", "rsub", "__rsub__", "subtract"})
PRODUCTS: Final = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
SUMS: Final = frozenset({"add", "__add__", "__radd__", "sub", "__sub__", "rsub", "__rsub__", "__iadd__", "add_"})
SMALLER: Final = frozenset({"min", "minimum", "fmin"})
LARGER: Final = frozenset({"max", "maximum", "fmax"})

REDUCING: Final = frozenset(
    {
        "sum", "mean", "std", "var", "min", "max", "amin", "amax", "argmax", "argmin", "all", "any", "prod", "norm",
        "logsumexp", "median", "nansum", "nanmean", "count_nonzero",
    }
)  # fmt: skip
"""Operations that reduce a dimension, or all."""
MOVING: Final = frozenset(
    {
        "T", "mT", "H", "t", "transpose", "permute", "movedim", "swapaxes", "swapdims", "flip", "roll", "sort",
        "argsort", "topk", "stack", "unbind", "masked_select", "nonzero", "repeat_interleave", "repeat", "tile",
        "unique", "rot90",
        "bincount", "scatter_add", "index_add", "einsum", "outer", "cdist", "meshgrid", "triu", "tril", "fliplr",
        "flipud", "adjoint", "unfold", "histc", "searchsorted", "bucketize", "split_with_sizes",
    }
)  # fmt: skip
"""Operations whose result has other rows, or in another order."""


SCATTERING: Final = frozenset(
    {"take", "scatter", "scatter_add", "index_copy", "index_add", "index_put", "masked_scatter", "put"}
)
"""Operations that write or take rows at any position."""
PICKING: Final = frozenset({"gather", "__getitem__", "index_select", "take_along_dim"})
"""Operations whose second tensor says which values are taken."""
LABELLING: Final = frozenset({"gather", "cross_entropy", "nll_loss", "take_along_dim"})
"""Operations that take or compare the values of given labels."""
_LIKE: Final = frozenset({"view_as", "reshape_as", "type_as", "expand_as"})
"""Operations of which the second tensor gives a shape or dtype, and no values."""
_LONGEST_PATH = 6
_CALL = tuple[str, tuple[Any, ...], dict[str, Any]]
_LOSSES_OF_LABELS = frozenset({"cross_entropy", "nll_loss"})


def dim_of(args: tuple[Any, ...], kwargs: dict[str, Any], default: Any = None) -> Any:
    """Return the dimension that an operation runs over."""
    if "dim" in kwargs or "axis" in kwargs:
        return kwargs.get("dim", kwargs.get("axis"))
    return args[1] if len(args) > 1 and type(args[1]) is int else default


class OriginField(NamedTuple):
    """A field of the batches of one origin."""

    origin: int
    """Number of the batch that the rows come from, in the order in which batches are first read."""
    name: str
    """Path of the field: ``"rew"``, ``"obs.cam"``."""


class OriginRows(NamedTuple):
    """The rows of an origin that the first dimension of a value has."""

    origin: int
    ids: NDArray[np.intp]

    def same(self, other: OriginRows) -> bool:
        """Return True if both are the same rows in the same order."""
        return self.ids is other.ids or (self.ids.shape == other.ids.shape and bool((self.ids == other.ids).all()))

    def is_later(self, other: OriginRows) -> bool:
        """Return True if most rows are as far apart as each other, as steps of time and the steps after them are."""
        if self.same(other) or self.ids.shape != other.ids.shape:
            return False
        counts = np.unique(self.ids - other.ids, return_counts=True)[1]
        return bool(len(counts) and counts.max() * 2 > len(self.ids))

    def is_range(self) -> bool:
        """Return True if the rows follow each other without a gap."""
        return bool((np.diff(self.ids) == 1).all())


class Columns(NamedTuple):
    """The columns, such as positions of tokens, that the second dimension of a value has."""

    frame: tuple[Any, ...]
    """Origin and width, or the frames that were concatenated."""
    offset: int
    """Position of the first column."""


@dataclass(slots=True)
class Tag:
    """The origin of the values of an array or tensor. A tag is never changed.

    Attributes:
        fields: Fields that the values were computed from.
        rows: Rows of the first dimension, or None if they are not known.
        column: Field whose values these are, possibly of other rows, shape or dtype; None for computed values.
        models: Names of the modules whose parameters were used.
        columns: Columns of the second dimension, or None if they are not known.
        table: Rows of a value per row that is viewed as a table, or None.
        made_by: Name of the operation that computed the values; empty for those of a field.
        path: Names of the operations from a field to here, as long as no model was used.
        step: Number of optimizer steps before the values were computed.
        is_scaled: Whether the values were multiplied by a number, such as a discount.
        is_negated: Whether the values are those of a log-probability with another sign.
        of_rows: Whether this is one number for all rows: their mean, or the like.
        is_of_labels: Whether the values are those of certain tokens, such as log-probabilities.
    """

    fields: frozenset[OriginField] = frozenset()
    rows: OriginRows | None = None
    column: OriginField | None = None
    models: frozenset[str] = frozenset()
    columns: Columns | None = None
    table: OriginRows | None = None
    made_by: str = ""
    path: tuple[str, ...] = ()
    step: int = 0
    is_scaled: bool = False
    is_of_labels: bool = False
    of_rows: bool = False
    is_negated: bool = False

    @property
    def from_model(self) -> bool:
        """Whether parameters of a model were used."""
        return bool(self.models)

    @property
    def names(self) -> set[str]:
        """Names of the fields, without those of nested fields."""
        return {field.name.split(".")[0] for field in self.fields}

    def has_any(self, names: frozenset[str]) -> bool:
        """Return True if the values were computed from a field with one of these names, or from a part of one."""
        return any(field.name in names or field.name.split(".")[0] in names for field in self.fields)

    def is_column(self, names: frozenset[str]) -> bool:
        """Return True if these are the values of a field with one of these names."""
        return self.column is not None and self.column.name in names


UNKNOWN = Tag()
_FEWEST_ENTRIES = 4096


class Tags:
    """Tags by value. A value is identified by its id and held by a weak reference."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[weakref.ref[Any], Tag]] = {}
        """Reference and tag by the id of a value. A reference to another object means that an id was used again."""
        self._most = _FEWEST_ENTRIES

    def of(self, value: Any) -> Tag | None:
        """Return the tag of a value, or None."""
        entry = self.entries.get(id(value))
        return entry[1] if entry is not None and entry[0]() is value else None

    def put(self, value: Any, tag: Tag) -> None:
        """Set the tag of a value."""
        if len(self.entries) >= self._most:  # Those that are gone are removed; callbacks would cost more.
            self.entries = {key: entry for key, entry in self.entries.items() if entry[0]() is not None}
            self._most = max(_FEWEST_ENTRIES, 2 * len(self.entries))
        self.entries[id(value)] = (weakref.ref(value), tag)


def listed(names: set[str] | frozenset[str]) -> str:
    """Return names as a text: ``"act, adv, obs"``."""
    return ", ".join(sorted(names)) or "nothing"


def tag_after(call: _CALL, tags: list[Tag], tensors: list[Any], out: Any, step: int) -> Tag:
    """Return the tag of the result of an operation on tensors with tags, after ``step`` optimizer steps."""
    name, args, kwargs = call
    if name in _LIKE:
        tags, tensors = tags[:1], tensors[:1]
    first = tags[0]
    fields, models = first.fields, first.models
    is_scaled, is_of_labels = first.is_scaled, first.is_of_labels
    for tag in tags[1:]:
        if tag.fields is not fields:
            fields = fields | tag.fields
        if tag.models is not models and name not in PICKING:
            models = models | tag.models
        is_scaled, is_of_labels = is_scaled or tag.is_scaled, is_of_labels or tag.is_of_labels
    if name in PRODUCTS and (len(tensors) == 1 or any(map(_may_be_scale, tags))):
        is_scaled = True
    elif name in LABELLING:
        is_of_labels = True
    is_copy = name in COPYING
    column = first.column if is_copy else None
    if column is not None and name in ("cat", "concat", "stack") and any(tag.column != column for tag in tags):
        column = None
    path: tuple[str, ...] = ()
    if not models:
        path = first.path if is_copy or len(first.path) > _LONGEST_PATH else (*first.path, name.strip("_"))
    return Tag(
        fields=fields,
        rows=_rows_after(name, args, kwargs, out, tags),
        column=column,
        models=models,
        columns=_columns_after(call, tags, tensors, out),
        table=_table_after(name, first, tensors[0], out),
        made_by=first.made_by if is_copy or name in ("neg", "__neg__") else name,
        path=path,
        step=max(step if models else 0, *(tag.step for tag in tags)) if step else 0,
        is_scaled=is_scaled,
        is_of_labels=is_of_labels,
        is_negated=name in _LOSSES_OF_LABELS if name in LABELLING else first.is_negated != _negates(call, first),
        of_rows=not out.ndim and (first.of_rows or (name in REDUCING and first.rows is not None)),
    )


def _may_be_scale(tag: Tag) -> bool:
    """Return True for numbers that may be a discount: those of no model, and of no flag or mask."""
    return not tag.from_model and not tag.has_any(TERMINATED | TRUNCATED | MASKS)


def _negates(call: _CALL, first: Tag) -> bool:
    """Return True if an operation changes the sign of log-probabilities of labels."""
    name, args, _ = call
    if not first.is_of_labels:
        return False
    if name in ("neg", "__neg__"):
        return True
    numbers = [value for value in args if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return name in PRODUCTS and any(number < 0 for number in numbers)


def part_of(tag: Tag, dim: int, begin: int, end: int) -> Tag:
    """Return the tag of a part of a value that was split along a dimension."""
    rows, columns = tag.rows, tag.columns
    if dim == 0:
        return replace(tag, rows=rows and OriginRows(rows.origin, rows.ids[begin:end]))
    return replace(tag, columns=columns and Columns(columns.frame, columns.offset + begin) if dim == 1 else columns)


def _rows_after(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, tags: list[Tag]
) -> OriginRows | None:
    """Return the rows of the result, or None if they are not known."""
    first = next((tag.rows for tag in tags if tag.rows is not None), None)
    if first is None or not out.ndim:
        return None
    if name in ("__getitem__", "index_select"):
        index = args[1] if name == "__getitem__" else slice(None)
        if name == "index_select" and kwargs.get("dim", args[1] if len(args) > 1 else None) == 0:
            index = kwargs.get("index", args[2] if len(args) > 2 else None)
        return _indexed(first, index, out) if tags[0].rows is not None else None
    if name.rstrip("_") in SCATTERING or (name == "gather" and dim_of(args, kwargs) in (0, -args[0].ndim)):
        return None
    if (name in MOVING and not _keeps_first(name, args, kwargs)) or (
        name in REDUCING and dim_of(args, kwargs) in (0, -args[0].ndim)
    ):
        return None
    if name in ("cat", "concat") and dim_of(args, kwargs, 0) == 0:
        return _joined([tag.rows for tag in tags], out)
    if name in ELEMENTWISE and any(tag.rows is not None and tag.rows.is_later(first) for tag in tags):
        return None  # The values of steps meet those of the steps after them.
    return first if len(first.ids) == out.shape[0] else None


def _keeps_first(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if an operation that moves dimensions or values leaves the first dimension as it is."""
    dims = [value for value in (*args[1:], *kwargs.values()) if type(value) is int]
    if name in ("transpose", "swapaxes", "swapdims"):
        return 0 not in dims and -args[0].ndim not in dims
    if name == "permute":
        order = args[1] if len(args) > 1 and isinstance(args[1], (tuple, list)) else args[1:]
        return bool(order) and order[0] == 0
    is_along = name in ("stack", "unbind", "flip", "roll", "sort", "argsort", "topk")
    if not is_along or not dims:
        return name == "mT"
    first = args[0][0] if isinstance(args[0], (tuple, list)) else args[0]
    return dims[-1] not in (0, -first.ndim)


def _indexed(rows: OriginRows, index: Any, out: Any) -> OriginRows | None:
    """Return the rows that an index takes."""
    if isinstance(index, tuple):
        if any(isinstance(part, (Tensor, np.ndarray, list)) for part in index[1:]):
            one = index[0] if index else None
            is_each = isinstance(one, (Tensor, np.ndarray)) and one.ndim == 1 and len(one) == len(rows.ids)
            return rows if is_each and out.ndim and out.shape[0] == len(rows.ids) and _is_arange(one) else None
        index = index[0] if index else slice(None)
    if index is Ellipsis:
        return rows if len(rows.ids) == out.shape[0] else None
    if isinstance(index, slice):
        taken = rows if index == slice(None) else OriginRows(rows.origin, rows.ids[index])
    elif isinstance(index, (Tensor, np.ndarray, list)):
        array = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
        if array.ndim != 1 or not array.size:
            return None
        taken = OriginRows(rows.origin, rows.ids[array])
    else:
        return None
    return taken if len(taken.ids) == out.shape[0] else None


def _is_arange(index: Any) -> bool:
    array = index.detach().cpu().numpy() if isinstance(index, Tensor) else index
    return array.dtype.kind in "iu" and bool((array == np.arange(len(array))).all())


def _joined(rows: list[OriginRows | None], out: Any) -> OriginRows | None:
    known = [row for row in rows if row is not None]
    if len(known) < len(rows) or len({row.origin for row in known}) > 1:
        return None
    ids = np.concatenate([row.ids for row in known])
    return OriginRows(known[0].origin, ids) if len(ids) == out.shape[0] else None


def _columns_after(call: _CALL, tags: list[Tag], tensors: list[Any], out: Any) -> Columns | None:
    """Return the columns of the result, or None if they are not known."""
    name, args, kwargs = call
    if name in ("cat", "concat") and dim_of(args, kwargs, 0) in (1, -1) and out.ndim == 2:
        return Columns(("cat", *(tensor.shape[1] for tensor in args[0])), 0)
    which = 1 if name in LABELLING and len(tags) > 1 and tags[1].columns is not None else 0
    columns = tags[which].columns if which < len(tags) else None
    if columns is None:
        columns = next((tag.columns for tag in tags if tag.columns is not None), None)
    if columns is None or name in MOVING or not out.ndim:
        return None
    if name in ELEMENTWISE and any(tag.columns not in (None, columns) for tag in tags):
        return None
    if out.ndim == 1:  # Tokens of all rows, end to end.
        is_flat = tensors[which].ndim == 1 or (
            tensors[which].ndim == 2 and name in ("flatten", "reshape", "view", "ravel")
        )
        return columns if is_flat and tensors[which].numel() == out.numel() else None
    if name == "__getitem__":
        index = args[1]
        if isinstance(index, tuple) and len(index) > 1:
            second = index[1]
            if not isinstance(second, slice) or not isinstance(index[0], slice) or second.step not in (None, 1):
                return None
            return Columns(columns.frame, columns.offset + second.indices(tensors[0].shape[1])[0])
        return columns if out.ndim >= 2 else None
    width = tensors[which].shape[1] if tensors[which].ndim >= 2 else None
    return columns if width == out.shape[1] else None


def _table_after(name: str, first: Tag, tensor: Any, out: Any) -> OriginRows | None:
    """Return the rows of a table that the values of rows are viewed as."""
    if first.table is not None:
        return first.table if first.table.ids.shape == tuple(out.shape) else None
    if name not in ("view", "reshape", "unflatten") or first.rows is None or tensor.ndim != 1 or out.ndim != 2:
        return None
    if 1 in out.shape or out.shape[0] * out.shape[1] != len(first.rows.ids):
        return None
    return OriginRows(first.rows.origin, first.rows.ids.reshape(tuple(out.shape)))
