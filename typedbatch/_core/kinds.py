"""Leaves: the kinds of value that a batch holds, and a short description of each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch.errors import DeclarationError

B = TypeVar("B", bound="Tree")


class Tree:
    """Named values in insertion order, stored in the instance ``__dict__``; the base of every ``Batch``.

    Operations use ``tree.__dict__`` and never look up methods on an instance, so that a field may have any name.
    """

    __plain__: ClassVar[type[Tree]]
    """The class that a nested ``dict`` becomes; ``typedbatch.batch`` sets it to ``Batch``."""

    _row_guard: ClassVar[Callable[..., None] | None] = None
    """Function that refuses to take rows of batches of the class, if there is one.

    It is called with a batch before rows of it are taken, and with batches and ``joining=True`` before these are
    concatenated.
    """

    _needs_equal_rows: ClassVar[bool] = False
    """Whether fields of different lengths are refused; a plain batch is cut to its shortest field instead."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for members in map(vars, cls.__mro__):
            for name, member in members.items():
                if isinstance(member, cached_property):
                    text = f"{cls.__name__}.{name} would keep its value among the fields; use a property"
                    raise DeclarationError(text)
            if members.get("__slots__"):
                text = f"{cls.__name__} has __slots__, which copies would lose; a batch has fields alone"
                raise DeclarationError(text)
        for listener in listeners:
            listener()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


class Sequences:
    """Sequences end to end: a batch of all their rows, and the length of each; the base of every ``Ragged``.

    This is a leaf and not a batch. Its rows are whole sequences, which operations on the rows of a batch must not cut.
    """

    __slots__ = ("_offsets", "_sizes", "_values")
    _values: Any
    _sizes: NDArray[np.intp]
    _offsets: NDArray[np.intp] | None

    @property
    def values(self) -> Any:
        """Rows of all sequences, end to end."""
        return self._values

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Length of each sequence, as a numpy array on any device; 0-d for a single sequence."""
        return self._sizes

    @property
    def offsets(self) -> NDArray[np.intp]:
        """Row at which each sequence begins, followed by the total number of rows."""
        if self._offsets is None:
            self._offsets = np.concatenate(([0], np.cumsum(self._sizes)))
        return self._offsets


def new_sequences(cls: type[Sequences], values: Any, sizes: Any) -> Any:
    """Return an instance of ``cls`` with these values and sizes; nothing is checked or copied."""
    out = object.__new__(cls)
    out._values, out._sizes, out._offsets = values, np.asarray(sizes), None
    out._sizes.flags.writeable = False
    return out


listeners: list[Callable[[], None]] = []
"""Callbacks for the creation of a batch class and for the first tensor of a class; ``typedbatch.pytree`` adds one."""


class Kind(Enum):
    """The kinds of value that operations on batches distinguish."""

    ARRAY = "numpy array"
    TENSOR = "torch tensor"
    BATCH = "Batch"
    RAGGED = "Ragged"
    SCALAR = "numpy scalar"
    NONE = "None"
    DISTRIBUTION = "distribution"
    OBJECT = "Python object"
    NUMBER = "number"
    MAPPING = "dict"
    SEQUENCE = "list"
    TENSORDICT = "TensorDict"

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # Enum's is written in Python, and would slow down every look-up by kind.


ARRAY, TENSOR, BATCH, SCALAR = Kind.ARRAY, Kind.TENSOR, Kind.BATCH, Kind.SCALAR
NONE, DISTRIBUTION, OBJECT = Kind.NONE, Kind.DISTRIBUTION, Kind.OBJECT
NUMBER, MAPPING, SEQUENCE, RAGGED = Kind.NUMBER, Kind.MAPPING, Kind.SEQUENCE, Kind.RAGGED
NUMERIC = frozenset({ARRAY, TENSOR, SCALAR})
TENSORDICT = Kind.TENSORDICT


class _Kinds(dict[type, Kind]):
    """Kind of each class: ``KINDS[type(value)]``. A class is examined once, at its first look-up."""

    def __missing__(self, cls: type) -> Kind:
        # A tensor exists only in a process that has imported torch, so it is never imported here. Another thread may
        # still be importing it.
        torch: Any = sys.modules.get("torch")
        of_torch: list[tuple[Kind, tuple[type, ...]]] = []
        if hasattr(torch, "distributions"):
            of_torch = [(TENSOR, (torch.Tensor,)), (DISTRIBUTION, (torch.distributions.Distribution,))]
        tensordict: Any = sys.modules.get("tensordict")
        if hasattr(tensordict, "TensorDictBase"):
            of_torch.append((TENSORDICT, (tensordict.TensorDictBase,)))  # a mapping whose iteration goes over rows
        # The first rule that matches decides. str and bytes are objects, since text has no dtype to compute with.
        rules: list[tuple[Kind, tuple[type, ...]]] = [
            (ARRAY, (np.ndarray,)),
            (BATCH, (Tree,)),
            (RAGGED, (Sequences,)),
            (NONE, (type(None),)),
            *of_torch,
            (OBJECT, (str, bytes, bytearray, memoryview)),
            (SCALAR, (np.generic,)),
            (MAPPING, (Mapping,)),
            (NUMBER, (Number,)),
            (SEQUENCE, (Sequence,)),
        ]
        kind = self[cls] = next((kind for kind, classes in rules if issubclass(cls, classes)), OBJECT)
        if kind is TENSOR:
            for listener in listeners:
                listener()
        return kind


KINDS = _Kinds({np.ndarray: ARRAY, type(None): NONE, dict: MAPPING, list: SEQUENCE, tuple: SEQUENCE, str: OBJECT})


def kind_of(value: object) -> Kind:
    """Return the kind of ``value``."""
    return KINDS[type(value)]


def new_tree(cls: type[B], fields: dict[str, Any]) -> B:
    """Return an instance of ``cls`` with these fields; no value is converted, checked or copied."""
    tree = object.__new__(cls)
    tree.__dict__.update(fields)
    return tree


def is_placeholder(value: object) -> bool:
    """Return True for ``Batch()``, which reserves a field whose value is set later."""
    return KINDS[type(value)] is BATCH and not value.__dict__


def is_objects(value: object) -> bool:
    """Return True for an array of Python objects."""
    return isinstance(value, np.ndarray) and value.dtype == object


def leading_shape(leaf: Any) -> tuple[int, ...]:
    """Return the shape whose first dimension is the rows.

    That is the shape of an array or tensor, the ``batch_shape`` of a distribution, the shape of the sizes of a
    ``Ragged``, whose rows are its sequences, and ``()`` for anything else.
    """
    kind = KINDS[type(leaf)]
    if kind is ARRAY or kind is TENSOR:
        return tuple(leaf.shape)
    if kind is RAGGED:
        return tuple(leaf.sizes.shape)
    return tuple(leaf.batch_shape) if kind is DISTRIBUTION else ()


def jagged_shape(tensor: Any) -> tuple[Any, ...]:
    """Return the shape of a jagged tensor, with its lengths in place of torch's symbol for them.

    Lengths that are all equal become one number. torch creates a new symbol for each tensor, so the shapes of two
    tensors with the same lengths would differ.
    """
    lengths = tuple(tensor.offsets().diff().tolist())
    size = lengths[0] if len(set(lengths)) == 1 else lengths
    return tuple(dim if type(dim) is int else size for dim in tensor.shape)


def blank(leaf: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros (``None`` for objects) of ``shape``, with the dtype and device of ``leaf``.

    For a masked array the result is a masked array in which nothing is masked.
    """
    if KINDS[type(leaf)] is TENSOR:
        return leaf.new_zeros(shape)
    objects = is_objects(leaf) or not isinstance(leaf, (np.ndarray, np.generic))
    zeros: NDArray[Any] = np.full(shape, None, object) if objects else np.zeros(shape, leaf.dtype)
    return zeros.view(np.ma.MaskedArray) if is_masked(leaf) else zeros


def write_obstacle(leaf: Any) -> str:
    """Return the reason why an array or tensor cannot be written in place, or an empty string if it can."""
    if KINDS[type(leaf)] is TENSOR:
        torch = sys.modules["torch"]
        if leaf.layout is not torch.strided or leaf.is_nested:
            return "a sparse or nested tensor cannot be written in place; to_dense() first"
        if leaf.is_inference() and not torch.is_inference_mode_enabled():
            return "a tensor created in inference mode can be written only in inference mode; clone() it first"
        repeats = any(stride == 0 and size > 1 for stride, size in zip(leaf.stride(), leaf.shape, strict=True))
        if repeats and leaf.numel():
            return "several elements of the tensor share the same memory; clone() it first"
        base = leaf if leaf._base is None else leaf._base
        if base.requires_grad and base.is_leaf and torch.is_grad_enabled():
            return "a tensor that requires grad can be written only under torch.no_grad()"
        return ""
    return "" if leaf.flags.writeable else "the array is read-only"


def is_masked(leaf: Any) -> bool:
    """Return True for an array that has a mask, whether anything is masked or not."""
    return isinstance(leaf, np.ma.MaskedArray)


def mask_obstacle(leaf: Any) -> str:
    """Return the reason why an array cannot be stored without its mask, or an empty string if nothing is masked."""
    if not is_masked(leaf) or not mask_of(leaf).any():
        return ""
    return "some values are masked, and their mask would be lost; fill it, as with filled(0), and keep the mask too"


def mask_of(leaf: Any) -> NDArray[np.bool_]:
    """Return an array that is True where an array or number is masked, and all False if it has no mask.

    An element of a structured dtype counts as masked if any part of it is.
    """
    mask = np.ma.getmaskarray(leaf)
    if mask.dtype.names:
        parts = np.frombuffer(mask.tobytes(), bool)
        return np.asarray(parts.reshape(*mask.shape, -1).any(-1)) if mask.size else np.zeros(mask.shape, bool)
    return np.asarray(mask)


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return a 1-d object array with exactly these elements, which numpy does not try to convert."""
    return np.fromiter(values, object, len(values))


_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


def short_dtype(leaf: Any) -> str:
    """Return the dtype of an array, tensor or numpy scalar as ``"f32"``, ``"i64"``, ``"bool"``, ``"obj"`` ..."""
    return _short(leaf.dtype) if is_own_dtype(leaf.dtype) else _short.__wrapped__(leaf.dtype)


def is_own_dtype(dtype: object) -> bool:
    """Return True for a dtype of numpy or torch.

    The ``dtype`` of a foreign class may compare equal to anything, so it must not be a key of a cache.
    """
    return issubclass(type(dtype), (np.dtype, getattr(sys.modules.get("torch"), "dtype", np.dtype)))


def contradiction(leaf: Any) -> str:
    """Return what is contradictory about an array or tensor of a foreign subclass, or an empty string.

    Such a subclass may raise any error here.
    """
    cls = type(leaf)
    kind = KINDS[cls]
    if cls is np.ndarray or (kind is not ARRAY and kind is not TENSOR):
        return ""
    own: Any = np.ndarray if kind is ARRAY else sys.modules["torch"].Tensor
    if cls is own:
        return ""
    if not is_own_dtype(leaf.dtype):
        return f"has a dtype of class {type(leaf.dtype).__name__}, which is not a dtype"
    if getattr(cls, "__len__", None) is not own.__len__ and leaf.shape and len(leaf) != leaf.shape[0]:
        return f"has a length of {len(leaf)} and a shape of {leaf.shape[0]} rows"
    return ""


@lru_cache(maxsize=256)
def _short(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name == "object":
        return "obj"
    letters = name.rstrip("0123456789")
    return _SHORT.get(letters, letters) + name[len(letters) :]


def describe(leaf: Any) -> str:
    """Return a short description of a leaf, without values: ``"f32[256,4]"``, ``"Normal[256]"``, ``"str"``."""
    kind = KINDS[type(leaf)]
    if kind is BATCH:
        names = [*islice(leaf.__dict__, 9)]
        return f"{type(leaf).__name__}({', '.join(names if len(names) < 9 else [*names[:8], '...'])})"
    if kind in (ARRAY, TENSOR):
        if kind is TENSOR and leaf.is_nested:
            return f"nested torch {short_dtype(leaf)}"  # A nested tensor may have no shape.
        prefix = "torch " if kind is TENSOR else ""
        return f"{prefix}{short_dtype(leaf)}[{','.join(map(str, leaf.shape))}]"
    if kind is DISTRIBUTION:
        return f"{type(leaf).__name__}[{','.join(map(str, leaf.batch_shape))}]"
    if kind is RAGGED:
        sizes = leaf.sizes
        if not sizes.shape:
            return f"{type(leaf).__name__}[{sizes}]"
        least, most = (sizes.min(), sizes.max()) if sizes.size else (0, 0)
        return f"{type(leaf).__name__}[{len(sizes)} x {least if least == most else f'{least}..{most}'}]"
    return "None" if leaf is None else short_dtype(leaf) if kind is SCALAR else type(leaf).__name__
