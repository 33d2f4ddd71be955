"""Operations of torch by what they do with rows and values."""

from __future__ import annotations

from typing import Any, Final

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


def dim_of(args: tuple[Any, ...], kwargs: dict[str, Any], default: Any = None) -> Any:
    """Return the dimension that an operation runs over."""
    if "dim" in kwargs or "axis" in kwargs:
        return kwargs.get("dim", kwargs.get("axis"))
    return args[1] if len(args) > 1 and type(args[1]) is int else default
