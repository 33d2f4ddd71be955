"""``Batch``, which is a dictionary and an array at once; each operation is in a module of ``typedbatch._ops``."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

from typing_extensions import TypeVar

from typedbatch._checkers import OpenFields
from typedbatch._core.declaration import pydantic_schema
from typedbatch._core.kinds import BATCH, Tree, describe, kind_of
from typedbatch._core.lengths import count_rows, shape_of
from typedbatch._core.meta import WithMeta, restore_meta
from typedbatch._ops import assignment, construct, conversion, copying, equality, indexing, nulls, splitting
from typedbatch._ops.arithmetic import Arithmetic
from typedbatch._ops.combine import Missing, as_list, cat_trees, stack_trees
from typedbatch._ops.conversion import moved, pinned
from typedbatch._ops.copying import shallow
from typedbatch._ops.display import Display
from typedbatch._ops.from_rows import MissingInRows, from_rows
from typedbatch._ops.joined_meta import MetaRule
from typedbatch._ops.nulls import WithNulls
from typedbatch._ops.numpy_functions import NumpyProtocols
from typedbatch._ops.widths import PadTokenId, Widths, same_widths
from typedbatch._typing import Index
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError
from typedbatch.pytree import register

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype
    from typedbatch._typing import TYPEDBATCH_PLUGIN, Settable
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="Batch")
J = TypeVar("J", bound="BatchProtocol")  # The class of batches that are joined.
C = TypeVar("C", bound="BatchProtocol", default="Batch")  # The same with dicts among them; dicts alone give a Batch.


class Batch(Arithmetic, WithMeta, NumpyProtocols, WithNulls, Display, OpenFields):  # pyright: ignore[reportIncompatibleMethodOverride]  # meta may be set
    """Named arrays, tensors and objects, possibly nested, that are indexed, converted and combined together.

    ``batch.obs`` and ``batch["obs"]`` read a field, ``batch[i]`` takes rows of every field. Iteration is over rows,
    not over names. Any string can name a field; one with the name of a method is read as ``batch["items"]``.

    Values are converted once, when they are set: a list becomes an array, a number a 0-d array, a ``dict`` a nested
    Batch. :func:`typedbatch.objects` makes a column of objects that are not converted. Arrays and tensors are stored
    without a copy, whatever their length; :func:`typedbatch.validate` reports unequal lengths.

    Args:
        data: A dict, a Batch (of which a shallow copy is made), or a list, tuple or object array of dicts and Batches.
            The latter are stacked, one row each, and padded where one lacks a field; see :meth:`from_rows`.
        copy: Whether to copy every leaf, so that nothing is shared with the arguments.
        meta: Values that belong to the batch as a whole, as ``{"temperature": 0.7}``; None for the meta of ``data``.
        **fields: More fields, which replace those of ``data``. A field ``copy`` or ``meta`` has to be in ``data``.

    Raises:
        LeafError: ``data`` is something else, a list holds arrays that do not fit together, or with ``copy`` a leaf
            cannot be copied (a ``TypeError``).
        FieldNameError: A name is not a string (also an ``AssertionError``).

    Example:
        >>> Batch(obs={"cam": [[1.0, 2.0]], "pos": [3]}, act=[0])
        Batch(
            obs: Batch(
                     cam: array([[1., 2.]]),
                     pos: array([3]),
                 ),
            act: array([0]),
        )

    The class follows Tianshou's ``Batch``; docs/differences.md lists the differences.
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # A batch is mutable, and so unhashable like a list.

    # The type of ``copy`` includes Any because checkers match it against Batch(**fields) too, whatever the names.
    def __init__(self, data: object = None, /, copy: bool | Any = False, meta: Any = None, **fields: object) -> None:
        if data is not None:
            fields = {**construct.fields_from(data), **fields}
        construct.fill(self.__dict__, fields)
        if data is not None or meta is not None:
            construct.give_meta(self, data, meta)
        if copy is not False:
            construct.require_flag(copy)
            copying.become(self, copying.deep(self, {}))

    # ---- fields ---------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:
        if not TYPEDBATCH_PLUGIN:
            # They are here and not in OpenFields because pyright compares their types only in one class.
            def __getattr__(self, name: str) -> Any: ...
            def __setattr__(self, name: str, value: Settable) -> None: ...
            def __delattr__(self, name: str) -> None: ...

    else:

        def __getattr__(self, name: str) -> Any:
            member = getattr(type(self), name, None)
            if isinstance(member, property):  # The property raised an AttributeError; calling it again shows that one.
                return member.fget(self)
            raise MissingFieldError(type(self).__name__, name, self.__dict__)

        def __setattr__(self, name: str, value: object) -> None:
            if name in ("__class__", "__dict__"):
                object.__setattr__(self, name, value)
            elif isinstance(member := getattr(type(self), name, None), property):
                if member.fset is None:
                    owner = type(self).__name__
                    raise FieldNameError(f"{name!r} is a property of {owner}; batch[{name!r}] = ... sets a field")
                member.fset(self, value)
            elif name[:2] == "__":  # typing sets __orig_class__ on instances, and ignores an AttributeError.
                raise AttributeError(f"{name!r} is not a field; batch[{name!r}] = ... makes it one")
            else:
                construct.set_fields(self.__dict__, {name: value}, type(self))

        def __delattr__(self, name: str) -> None:
            del self[name]

        __get_pydantic_core_schema__ = classmethod(pydantic_schema)

    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    @overload
    def __getitem__(self: B, index: Index, /) -> B: ...
    def __getitem__(self, index: Any, /) -> Any:
        """Return a field by its name, or the rows at an index as a new Batch of the same class.

        An index is what numpy and torch accept: int, slice, ``...``, ``None``, list, mask, array, tensor, or a tuple of
        these. Integers and slices give views, arrays and masks copies. Rows taken by an int hold numpy scalars.
        Distributions are indexed along their batch dimensions; ``None`` and reserved fields stay unchanged.

        Raises:
            MissingFieldError: The field does not exist (a ``KeyError``).
            RowIndexError: A field cannot be indexed so (an ``IndexError``); the error names the field.
        """
        if (type(index) is int or type(index) is slice) and self.__dict__:
            return indexing.take_basic(self, index)
        if not isinstance(index, str):
            return indexing.take(self, index)
        try:
            return self.__dict__[index]
        except KeyError:
            raise MissingFieldError(type(self).__name__, index, self.__dict__) from None

    def __setitem__(self, index: str | Index, value: Any, /) -> None:
        """Set a field by its name, or write rows at an index; for the latter see :meth:`set_rows`."""
        if isinstance(index, str):
            construct.set_fields(self.__dict__, {index: value}, type(self))
        else:
            assignment.set_rows(self, index, value, strict=False)

    def __delitem__(self, name: str, /) -> None:
        """Remove a field.

        Raises:
            MissingFieldError: The field does not exist.
            FieldNameError: ``name`` is not a string; rows cannot be deleted.
        """
        if not isinstance(name, str):
            raise FieldNameError(f"del takes the name of a field, got {name!r}; to drop rows, take the others")
        if name not in self.__dict__:
            raise MissingFieldError(type(self).__name__, name, self.__dict__)
        del self.__dict__[name]

    def __contains__(self, name: object, /) -> bool:
        """Return True if there is a field of that name."""
        return name in self.__dict__

    def get_keys(self) -> KeysView[str]:
        """Return the names of the fields, in the order in which they were first set."""
        return self.__dict__.keys()

    def keys(self) -> KeysView[str]:
        """Return the names of the fields, in the order in which they were first set."""
        return self.__dict__.keys()

    if TYPE_CHECKING:
        # At run time this is a method, which a field may hide. Every checker lets a subclass redeclare Any only.
        values: Any
    else:

        def values(self) -> ValuesView[Any]:
            """Return the values of the fields; for a record with a field ``values``, call ``Batch.values(record)``."""
            return self.__dict__.values()

    def items(self) -> ItemsView[str, Any]:
        """Return the name and value of each field."""
        return self.__dict__.items()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the field, or ``default`` if the field does not exist."""
        return self.__dict__.get(key, default)

    def pop(self, key: str, default: Any = None) -> Any:
        """Remove a field and return it, or return ``default`` if the field does not exist."""
        return self.__dict__.pop(key, default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the field that was set last and return its name and value.

        Raises:
            KeyError: The Batch is empty.
        """
        return self.__dict__.popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the field, after setting it to ``default`` (converted as usual) if the field does not exist."""
        if key not in self.__dict__:
            construct.set_fields(self.__dict__, {key: default}, type(self))
        return self.__dict__[key]

    def clear(self) -> None:
        """Remove every field."""
        self.__dict__.clear()

    def update(self, batch: object = None, /, **fields: object) -> None:
        """Set fields from a dict, a Batch, ``(name, value)`` pairs or keywords; if there is an error, set none.

        Raises:
            LeafError: A value cannot become a leaf.
            FieldNameError: A name is not a string.
        """
        given = {} if batch is None else construct.pairs_to_fields(batch)
        construct.set_fields(self.__dict__, {**given, **fields}, type(self))

    # ---- size -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the length of the shortest field; 0 if nothing has rows. ``None`` and reserved fields do not count.

        Raises:
            NoLengthError: A field is a scalar (a ``TypeError``).
        """
        return count_rows(self.__dict__) or 0

    def __iter__(self: B) -> Iterator[B]:
        """Iterate over the rows ``batch[0]``, ``batch[1]`` ..., not over the names.

        Raises:
            NoLengthError: A field is a scalar, so the batch has no rows.
        """
        return (indexing.take_basic(self, row) for row in range(count_rows(self.__dict__) or 0))

    @property
    def shape(self) -> list[int]:
        """Smallest size in each dimension that all leaves have; ``[]`` with a scalar or a reserved field."""
        return shape_of(self.__dict__)

    def is_empty(self, recurse: bool = False) -> bool:
        """Return True if the batch is without fields; with ``recurse``, also if all fields are such Batches."""
        return nulls.is_empty(self, recurse)

    def split(
        self: B, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: splitting.Rng = None
    ) -> Iterator[B]:
        """Yield minibatches of ``size`` rows each, the last one with the rest; of ``len(batch)`` rows in all.

        If the fields of a plain batch have different lengths, the rows that only the longer ones have are left out,
        with a ``UserWarning`` that names these fields.

        Args:
            size: Number of rows of a minibatch; -1 for all rows in one.
            shuffle: Whether to visit the rows in random order, which copies; otherwise minibatches are views.
            merge_last: Whether the last minibatch includes a rest of fewer than ``size`` rows.
            rng: Generator of numpy or torch, or seed, for the order; None for numpy's global state, as
                ``np.random.seed`` sets it.

        Raises:
            SizeError: ``size`` is 0 or below -1 (also an ``AssertionError``).
            StructureError: The fields of a record have different lengths, so that rows would be lost.
            NoLengthError: A field is a scalar, so the batch has no rows.
            SettingError: ``rng`` is not a source of randomness.
        """
        return splitting.split(self, size, shuffle, merge_last, rng)

    # ---- rows -----------------------------------------------------------------------------------------------------

    def set_rows(self, index: Index, value: object, *, strict: bool = False) -> None:
        """Write rows into every field at ``index``, from a dict, a Batch, or a list of these.

        Everything is checked before the first write, so a refused assignment changes nothing. Values are cast to the
        dtype of the field if that does not change them: an integer field takes 2.0 but refuses 2.7. A date is refused
        if the unit of the field is too fine or too coarse for it. Masked values need masked arrays.

        Args:
            index: Any index of ``batch[index]``, except names.
            value: Rows to write.
            strict: Whether to refuse rows that lack fields; otherwise those fields are set to zero (``None``) at
                ``index``, as in Tianshou.

        Raises:
            RowAssignmentError: Rows have unknown fields, lack some with ``strict``, have the wrong shape, or have
                values that would change or lose their mask.
            RowIndexError: A field cannot be indexed so.
            StructureError: Fields on the same memory would have to hold different values there.
        """
        assignment.set_rows(self, index, value, strict)

    def set_array_at_key(self, arr: Any, key: str, index: Index = None, default_value: float | None = None) -> None:
        """Set a field, or some rows of it, from an array.

        Args:
            arr: Values, one for each row of the Batch, or for each row at ``index``.
            key: Name of the field, which may be new.
            index: Rows to write; None for all rows.
            default_value: Value of the other rows of a new field. None makes them null: NaN, NaT, ``None`` among
                objects, masked in a masked array, so that :meth:`hasnull` and :meth:`dropnull` find them.

        Raises:
            StructureError: The number of values does not match, or the field is a nested Batch.
            RowIndexError: The field cannot be indexed so.
            RowAssignmentError: A value or ``default_value`` does not fit the field's dtype. Or rows of a new field get
                no value, and its dtype, as that of integers or flags, has no null.
        """
        assignment.set_column(self, arr, key, index, default_value)

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """Return a copy of ``batch`` with zeros (``None`` for objects) everywhere, or only in the rows at ``index``."""
        if kind_of(batch) is not BATCH:
            raise LeafError(f"Batch.empty takes a Batch, got {describe(batch)}")
        if index is None:
            return conversion.map_leaves(batch, nulls.emptied)
        result = conversion.map_leaves(batch, copying.apart)
        assignment.clear_rows(result, index)
        return result

    def empty_(self: B, index: Index = None) -> B:
        """Set everything, or the rows at ``index``, to zero (``None`` for objects), in the existing arrays.

        Raises:
            RowIndexError: A field cannot be indexed so.
            StructureError: A field on the same memory would change in other rows.
        """
        if index is None:
            conversion.adopt(self, conversion.map_leaves(self, nulls.emptied_or_writable))  # first: it may be refused
            conversion.map_leaves(self, nulls.empty_in_place)
        else:
            assignment.clear_rows(self, index)
        return self

    @classmethod
    def from_rows(
        cls: type[B],
        rows: Iterable[Mapping[str, Any] | Batch],
        missing: MissingInRows = "error",
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> B:
        """Build a Batch of this class from a list of dicts or Batches, one for each row. Numbers are copied.

        Numbers become an array, arrays of numbers and tensors of equal shapes are stacked, dicts become nested Batches.
        Anything else becomes a column of the very same objects: text, lists of any length, values of several kinds. So
        does a field that a record declares as ``NDArray[np.object_]``, whatever its values are.

        Args:
            rows: Dicts or Batches; fields have the order of their first occurrence.
            missing: Treatment of a key that some rows lack, in nested dicts too: ``"error"`` refuses, ``"none"`` puts
                ``None`` there, in a column of objects, ``"zero"`` puts zeros (``None`` among objects).
            meta: Meta of the new Batch; None for that of rows that are Batches, if it is equal in all.

        Raises:
            StructureError: A row lacks a key (the error names both), or the meta of the rows differs.
            LeafError: ``rows`` is something else, or a key is not a string.
            TypeError: For a record, a field is not declared, or a declared one is missing in all rows.
            SettingError: ``missing`` is not one of its three values.
        """
        return from_rows(cls, rows, missing, meta)

    # ---- together -------------------------------------------------------------------------------------------------

    @overload
    @staticmethod
    def stack(
        batches: Iterable[J], axis: int = 0, missing: Missing = "pad", *, meta: MetaRule = "error",
        widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> J: ...  # fmt: skip
    @overload
    @staticmethod
    def stack(
        batches: Iterable[C | Mapping[str, Any]], axis: int = 0, missing: Missing = "pad", *,
        meta: MetaRule = "error", widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> C: ...  # fmt: skip
    @staticmethod
    def stack(
        batches: Iterable[Any], axis: int = 0, missing: Missing = "pad", *, meta: MetaRule = "error",
        widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> Any:  # fmt: skip
        """Join batches along a new dimension, field by field. Data is copied once; objects in declared columns stay.

        Args:
            batches: Batches or dicts. Fields have the order of their first occurrence.
            axis: Position of the new dimension.
            missing: Treatment of fields that some lack: ``"pad"`` fills with zeros (``None`` in object arrays),
                ``"error"`` refuses. A reserved field counts as missing, and is always filled.
            meta: Treatment of meta that differs; see :meth:`cat`.
            widths: Treatment of a dimension in which a field differs; see :meth:`cat`.
            pad_token_id: Id for padded positions of token ids, or ids by the dotted names of fields.

        Returns:
            A Batch of the class that all have in common, else a plain one; ``Batch()`` for an empty list.

        Raises:
            StructureError: Names, kinds, shapes or meta differ (a ``ValueError``).
        """
        parts = batches if widths == "error" else same_widths(batches, widths, pad_token_id, first=0)
        return stack_trees(parts, axis, missing, construct.to_leaf, meta)

    @overload
    @staticmethod
    def cat(
        batches: Iterable[J], missing: Missing = "error", *, meta: MetaRule = "error",
        widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> J: ...  # fmt: skip
    @overload
    @staticmethod
    def cat(
        batches: Iterable[C | Mapping[str, Any]], missing: Missing = "error", *, meta: MetaRule = "error",
        widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> C: ...  # fmt: skip
    @staticmethod
    def cat(
        batches: Iterable[Any], missing: Missing = "error", *, meta: MetaRule = "error",
        widths: Widths = "error", pad_token_id: PadTokenId = None,
    ) -> Any:  # fmt: skip
        """Join batches along the rows, field by field. Data is copied once. Empty Batches are skipped.

        Args:
            batches: Batches or dicts. Fields have the order of their first occurrence.
            missing: Treatment of fields that some lack: ``"error"`` refuses, ``"pad"`` fills with zeros (``None`` in
                object arrays). A reserved field counts as missing, and is always filled.
            meta: Treatment of a key of the meta in which the batches differ, or that some lack: ``"error"`` refuses,
                ``"first"`` takes the value of the first that has it, ``"drop"`` leaves it out. A dict has functions by
                key, each called with the list of the values, as ``{"step": max}``.
            widths: Treatment of a field whose second dimension differs: ``"error"`` refuses, ``"pad"`` pads it, with
                ``pad_token_id`` in ids and zeros elsewhere. Prompts are padded on the left and responses on the right;
                a dict has the sides of other fields, as ``{"scores": "left"}``.
            pad_token_id: Id for padded positions of token ids, or ids by the dotted names of fields.

        Returns:
            A Batch of the class that all have in common, else a plain one; ``Batch()`` for an empty list.

        Raises:
            StructureError: Names, kinds, shapes or meta differ, or lengths in one record; in a plain Batch they warn.
            SettingError: ``widths`` is something else, or ids are padded without ``pad_token_id``.
        """
        parts = batches if widths == "error" else same_widths(batches, widths, pad_token_id, first=1)
        return cat_trees(parts, missing, construct.to_leaf, meta)

    def stack_(
        self, batches: Iterable[Batch | Mapping[str, Any]], axis: int = 0, missing: Missing = "pad", *,
        meta: MetaRule = "error",
    ) -> None:  # fmt: skip
        """Become ``Batch.stack([self, *batches], axis)``; if this Batch has no fields, it is left out."""
        parts: list[Any] = [*([self] if self.__dict__ else []), *as_list(batches)]
        copying.become(self, stack_trees(parts, axis, missing, construct.to_leaf, meta))

    def cat_(
        self, batches: Batch | Mapping[str, Any] | Iterable[Batch | Mapping[str, Any]], missing: Missing = "error", *,
        meta: MetaRule = "error",
    ) -> None:  # fmt: skip
        """Become ``Batch.cat([self, *batches])``; a single Batch may be given without a list."""
        more: list[Any] = [batches] if isinstance(batches, (Batch, Mapping)) else as_list(batches)
        copying.become(self, cat_trees([self, *more], missing, construct.to_leaf, meta))

    # ---- conversion -----------------------------------------------------------------------------------------------

    def to_numpy(self) -> Batch:
        """Return a Batch with arrays for tensors; CPU memory is shared. See :func:`typedbatch.conversion.to_numpy`."""
        return conversion.tree_to_numpy(self)

    def to_numpy_(self) -> None:
        """Replace tensors by arrays in place, in this Batch and its nested ones."""
        conversion.adopt(self, conversion.tree_to_numpy(self))

    def to_torch(self, dtype: Dtype | None = None, device: Device = "cpu") -> Batch:
        """Return a Batch with tensors in place of numeric arrays. Memory is shared where torch can use it.

        ``None``, text and object arrays stay unchanged. Distributions, and tensors among objects, move to ``device``.

        Args:
            dtype: Dtype of the floating tensors; None for no change. Integers and flags keep their dtype, since
                ``torch.bfloat16`` would round token ids.
            device: Device of the tensors.

        Raises:
            LeafError: Torch lacks a numeric dtype, as ``longdouble``.
            SettingError: Torch has no such dtype or device, or the dtype is not a floating one.
        """
        return conversion.tree_to_torch(self, dtype, device)

    def to_torch_(self, dtype: Dtype | None = None, device: Device = "cpu") -> None:
        """Replace numeric arrays by tensors in place, in nested Batches too, with arguments as in :meth:`to_torch`."""
        conversion.adopt(self, conversion.tree_to_torch(self, dtype, device))

    def to(self: B, device: Device | None = None, *, dtype: Dtype | None = None, non_blocking: bool = False) -> B:
        """Return a Batch of the same class with its tensors on ``device``; ``accelerate.send_to_device`` calls it.

        ``None``, text and dates stay unchanged; tensors among objects move too. A tensor that is there is shared.

        Args:
            device: Device of the tensors, those of distributions too; None for no change.
            dtype: Dtype of the floating fields; None for no change. Integers, flags and distributions keep their dtype.
            non_blocking: Whether to return before a copy from pinned memory to a GPU ends, as in ``torch.Tensor.to``.

        Raises:
            LeafError: A field is a numeric array of numpy, which has no device; :meth:`to_torch` makes it a tensor.
            SettingError: Torch has no such dtype or device, or the dtype is not a floating one.
        """
        return moved(self, device, dtype, non_blocking)

    def pin_memory(self: B) -> B:
        """Return a Batch of the same class with its tensors in pinned memory.

        A DataLoader with ``pin_memory=True`` calls it. Other values are treated as by :meth:`to`.

        Raises:
            LeafError: A field is a numeric array of numpy, a tensor is not on the CPU, or the machine has no GPU.
        """
        return pinned(self)

    def to_at_least_2d(self: B) -> B:
        """Return views whose arrays and tensors have two or more dimensions, and distributions a batch dimension."""
        return conversion.map_leaves(self, conversion.at_least_2d)

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """Return the fields as a dict, with nested Batches as dicts too if ``recursive``. Leaves are shared."""
        if not recursive:
            return dict(self.__dict__)
        return {k: Batch.to_dict(v) if kind_of(v) is BATCH else v for k, v in self.__dict__.items()}

    def to_list_of_dicts(self) -> list[dict[str, Any]]:
        """Return a list with one dict per row.

        Raises:
            NoLengthError: A field is a scalar, so the batch has no rows.
        """
        return [Batch.to_dict(row) for row in Batch.__iter__(self)]

    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: bool = False) -> Batch:
        """Call a function on every leaf, ``None`` and objects included, and store its results, converted as usual.

        Args:
            values_transform: Function that takes a leaf and returns the new one.
            inplace: Whether to change this Batch and its nested ones instead of returning a new Batch.

        Returns:
            The new Batch, or this one. If the function raises, nothing changes.
        """
        result = conversion.map_leaves(self, lambda leaf: construct.to_leaf(values_transform(leaf)))
        if not inplace:
            return result
        conversion.adopt(self, result)
        return self

    # ---- equality, copies, display --------------------------------------------------------------------------------

    def __eq__(self, other: object, /) -> bool:
        """Return whether names, shapes, dtypes, values and meta are equal; never raise. A tensor can equal an array."""
        return equality.equal(self, other) if isinstance(other, Batch) else NotImplemented

    def allclose(self: B, other: B, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # both are of one class
        """Return whether all is equal but dtypes, and numbers up to ``atol + rtol * abs(other)``; never raise."""
        return kind_of(other) is BATCH and equality.allclose(self, other, rtol, atol, equal_nan)

    def copy(self: B) -> B:
        """Return new Batches, nested ones too, with the same leaves; arrays are shared."""
        return shallow(self)

    def __copy__(self: B) -> B:
        return shallow(self)

    def __deepcopy__(self: B, memo: dict[int, Any]) -> B:
        return copying.deep(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copying.reduced(self, protocol)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        restore_meta(self, state)


construct.refuse_on_instances(Batch, "from_rows", "stack", "cat")
Tree.__plain__ = Batch
register()
DynamicBatch = Batch

objects: Final = construct.objects
cat: Final = Batch.cat
stack: Final = Batch.stack
