"""Tables of the operations whose shapes are known, by their names."""

from __future__ import annotations

from typing import Final

from typedbatch._program.arrays import (
    convolution,
    creation,
    distributions,
    indexing,
    joining,
    layers,
    losses,
    pointwise,
    products,
    reductions,
    reshaping,
)
from typedbatch._program.arrays.sizes import number
from typedbatch._program.arrays.values import Arguments, Array, DType, Layer, Operation, Several, Value

_ROOMS = (
    *(pointwise, creation, joining, reductions, reshaping, indexing, losses, products),
    *(convolution, layers),
)

FUNCTIONS: Final[dict[str, Operation]] = {name: call for room in _ROOMS for name, call in room.FUNCTIONS.items()}
"""Functions of numpy, torch and torch.nn.functional."""
METHODS: Final[dict[str, Operation]] = {name: call for room in _ROOMS for name, call in room.METHODS.items()}
"""Methods of arrays and tensors that compute."""
CONVERSIONS: Final = creation.CONVERSIONS
"""Methods of arrays and tensors that convert."""
OF_DISTRIBUTIONS: Final = distributions.METHODS
"""Methods of distributions."""
ATTRIBUTES: Final[dict[str, Operation]] = reshaping.ATTRIBUTES
"""``x.T``, ``x.mT``."""
RESHAPED_IN_PLACE: Final = frozenset(
    {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "resize_", "resize", "resize_as_", "set_"}
)
"""Methods that change the shape of an array in place."""
KEEPS_LAYER: Final = frozenset({
    "apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "share_memory", "to",
    "train", "type",
})  # fmt: skip
"""Methods of a layer that return the layer itself."""
CHANGES_MODULES: Final = frozenset({
    "register_forward_hook", "register_forward_pre_hook", "register_full_forward_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_parametrization", "set_submodule",
})  # fmt: skip
"""Functions and methods after which a layer or module that is somewhere else may return other shapes."""
HOLDS_LAYERS: Final = frozenset({"_modules", "_parameters", "_buffers"})
"""Attributes of modules through which their layers may be replaced."""
TRANSFORMS: Final = frozenset({"grad", "hessian", "jacfwd", "jacrev", "value_and_grad", "vmap"})
"""Decorators of torch after which a function takes or returns other shapes than it declares."""
CHANGES_LAYER: Final = frozenset({
    "append", "extend", "insert", "pop", "register_forward_hook", "register_forward_pre_hook",
    "set_submodule", "__setitem__", "__delitem__", "add_module", "register_module", "register_parameter",
})  # fmt: skip
"""Methods that change a layer, or what it returns."""
KEEPS_ARGUMENT: Final = frozenset({
    "torch.compile", "torch.jit.script", "torch.nn.DataParallel", "torch.nn.Parameter", "torch.nn.Buffer",
    "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.nn.parameter.Buffer",
    "torch.nn.parameter.Parameter", "torch.nn.utils.parametrizations.orthogonal",
    "torch.nn.utils.parametrizations.spectral_norm", "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm",
})  # fmt: skip
"""Functions that return the layer, module or array that they are given."""
_HOMES: Final = frozenset({"numpy", "torch", "torch.nn.functional", "torch.nn.utils.rnn"})


def operation_named(name: str) -> tuple[Operation, bool] | None:
    """Return a function, layer or distribution by its full name, and whether it is of torch; None if not known."""
    home, _, last = name.rpartition(".")
    if home in _HOMES:
        found, torch = FUNCTIONS.get(last), home != "numpy"
    elif home == "numpy.random":
        found, torch = creation.DRAWS.get(last), False
    elif home == "einops":
        found, torch = products.EINOPS_FUNCTIONS.get(last), True
    elif home.startswith("torch.distributions"):
        found = distributions.divergence if last == "kl_divergence" else distributions.CONSTRUCTORS.get(last)
        torch = True
    elif home.startswith("torch.nn"):
        found, torch = layer_named(last), True
    else:
        return None
    return None if found is None else (found, torch)


def layer_named(name: str) -> Operation | None:
    """Return the operation that constructs a layer of torch, or None if the class is not known."""
    constructor = layers.LAYERS.get(name) or (layers.loss(layers.LOSSES[name]) if name in layers.LOSSES else None)
    if constructor is None:
        return None

    def construct(made: Arguments) -> Layer:
        attributes = layers.ATTRIBUTES[name](made) if name in layers.ATTRIBUTES else {}
        return Layer(constructor(made), attributes=attributes)

    return construct


def attribute_of(array: Array, name: str) -> Value:
    """Return an attribute of an array or tensor, or None if it is not known."""
    if name == "shape":
        return None if array.axes is None else Several(tuple(axis.size for axis in array.axes))
    if name == "ndim":
        return None if array.axes is None else number(len(array.axes))
    if name == "dtype":
        return None if array.dtypes is None else DType(array.dtypes)
    if name in ("data", "real", "imag", "grad"):
        return array if name == "data" else array.typed(None)
    operation = ATTRIBUTES.get(name)
    return None if operation is None else operation(Arguments((array,), torch=array.torch))
