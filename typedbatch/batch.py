"""``Batch``: a dictionary and an array at once. Each operation's body lives in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

from typing_extensions import TypeVar

from typedbatch._declaration import pydantic_schema
from typedbatch._ops import assignment, column, construct, conversion, copying, equality, indexing, nulls, splitting
from typedbatch._ops.arithmetic import Arithmetic
from typedbatch._ops.combine import Missing, as_list, cat_trees, stack_trees
from typedbatch._ops.copying import shallow
from typedbatch._ops.devices import moved, pinned
from typedbatch._ops.direct import written_directly
from typedbatch._ops.display import Display
from typedbatch._ops.from_rows import MissingInRows, from_rows
from typedbatch._ops.meta import MetaRule
from typedbatch._ops.numpy_functions import NumpyProtocols
from typedbatch._tree.leaves import BATCH, Tree, describe, kind_of
from typedbatch._tree.meta import WithMeta, restore_meta
from typedbatch._tree.rows import count_rows, shape_of
from typedbatch._typing import Index
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype
    from typedbatch.protocols import BatchProtocol

B = TypeVar("B", bound="Batch")
J = TypeVar("J", bound="BatchProtocol")  # what is joined
C = TypeVar("C", bound="BatchProtocol", default="Batch")  # with dicts among them; dicts alone make a plain Batch


class Batch(Arithmetic, WithMeta, NumpyProtocols, Display):
    """Named arrays, tensors and objects, nested at will, that are read, indexed and combined together.

    ``batch.obs`` and ``batch["obs"]`` read a field, ``batch[i]`` takes rows of every field. Iteration is over rows,
    not over names. Any string is a field name; one that is a method too, as ``"items"``, is read by ``batch["items"]``.

    Values are converted once, when they are set: a list becomes an array, a number a 0-d array, a ``dict`` a nested
    Batch; :func:`typedbatch.objects` makes a column of objects that stays one. Arrays and tensors are kept as they are,
    without a copy, whatever their length: unequal lengths are named by :func:`typedbatch.validate`, not here.

    Args:
        data: a dict, a Batch (a shallow copy of it is made), or a list, tuple or object array of dicts and Batches,
            which are stacked, one row each, and padded where one lacks a field; see :meth:`from_rows`.
        copy: copy every leaf, so that nothing is shared with the arguments.
        meta: what goes with the batch as a whole, as ``{"temperature": 0.7}``; None for that of ``data``.
        **fields: more fields; they win over ``data``. A field called ``copy`` or ``meta`` goes into ``data``.

    Raises:
        LeafError: ``data`` is something else, a list holds arrays that do not fit together, or with ``copy`` a leaf
            cannot be copied (a ``TypeError``).
        FieldNameError: a name is not a string (an ``AssertionError`` too).

    Example:
        >>> Batch(obs={"cam": [[1.0, 2.0]], "pos": [3]}, act=[0])
        Batch(
            obs: Batch(
                     cam: array([[1., 2.]]),
                     pos: array([3]),
                 ),
            act: array([0]),
        )

    Modelled on Tianshou's ``Batch``; docs/differences.md lists where behaviour departs.
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable, so unhashable, as list and dict

    # Any beside bool, because checkers match Batch(**fields) against copy as well, whatever the fields are called.
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

    if not TYPE_CHECKING:
        # Hidden from checkers on purpose: with a visible __getattr__ a Batch would match every protocol.

        def __getattr__(self, name: str) -> Any:
            member = getattr(type(self), name, None)
            if isinstance(member, property):  # it raised an AttributeError, which is the one to show
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
            elif name[:2] == "__":  # typing sets __orig_class__ on instances, and takes no for an answer
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
        """A field by its name, or the rows at an index, as a new Batch of the same class.

        Indices are what numpy and torch take: int, slice, ``...``, ``None``, list, mask, array, tensor, or a tuple of
        these. Integers and slices give views, arrays and masks copies. Rows taken by an int hold numpy scalars.
        Distributions are indexed along their batch dimensions; ``None`` and reserved fields stay.

        Raises:
            MissingFieldError: no such field (a ``KeyError``).
            RowIndexError: a field cannot take the index (an ``IndexError``); the error names the field.
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
        elif not (isinstance(value, Tree) and written_directly(self.__dict__, index, value.__dict__)):
            assignment.set_rows(self, index, value, strict=False)

    def __delitem__(self, name: str, /) -> None:
        """Remove a field.

        Raises:
            MissingFieldError: no such field.
            FieldNameError: ``name`` is not a string; rows cannot be deleted.
        """
        if not isinstance(name, str):
            raise FieldNameError(f"del takes the name of a field, got {name!r}; rows are dropped by taking the others")
        if name not in self.__dict__:
            raise MissingFieldError(type(self).__name__, name, self.__dict__)
        del self.__dict__[name]

    def __contains__(self, name: object, /) -> bool:
        """True when there is a field of that name."""
        return name in self.__dict__

    def get_keys(self) -> KeysView[str]:
        """The names of the fields, in the order in which they were first set."""
        return self.__dict__.keys()

    def keys(self) -> KeysView[str]:
        """The names of the fields, in the order in which they were first set."""
        return self.__dict__.keys()

    if TYPE_CHECKING:
        # To run time a method, which a field hides. Of all types only Any may be declared anew as a field's, in every
        # checker.
        values: Any
    else:

        def values(self) -> ValuesView[Any]:
            """The values of the fields. Of a record with a field of that name: ``Batch.values(record)``."""
            return self.__dict__.values()

    def items(self) -> ItemsView[str, Any]:
        """Name and value of each field."""
        return self.__dict__.items()

    def get(self, key: str, default: Any = None) -> Any:
        """The field, or ``default`` when there is none of that name."""
        return self.__dict__.get(key, default)

    def pop(self, key: str, default: Any = None) -> Any:
        """Remove a field and return it, or return ``default`` when there is none of that name."""
        return self.__dict__.pop(key, default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the field that was set last and return its name and value.

        Raises:
            KeyError: the Batch is empty.
        """
        return self.__dict__.popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The field, which is set to ``default`` first (converted as usual) when there is none of that name."""
        if key not in self.__dict__:
            construct.set_fields(self.__dict__, {key: default}, type(self))
        return self.__dict__[key]

    def clear(self) -> None:
        """Remove every field."""
        self.__dict__.clear()

    def update(self, batch: object = None, /, **fields: object) -> None:
        """Set fields from a dict, a Batch, ``(name, value)`` pairs or keywords; all of them or, on an error, none.

        Raises:
            LeafError: a value cannot become a leaf.
            FieldNameError: a name is not a string.
        """
        given = {} if batch is None else construct.pairs_to_fields(batch)
        construct.set_fields(self.__dict__, {**given, **fields}, type(self))

    # ---- size -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Rows of the shortest field; 0 when nothing has rows. ``None`` and reserved fields do not count.

        Raises:
            NoLengthError: a field is a scalar (a ``TypeError``).
        """
        return count_rows(self.__dict__) or 0

    def __iter__(self: B) -> Iterator[B]:
        """The rows ``batch[0]``, ``batch[1]`` ..., not the names.

        Raises:
            NoLengthError: a field is a scalar, so there are no rows.
        """
        return (indexing.take_basic(self, row) for row in range(count_rows(self.__dict__) or 0))

    @property
    def shape(self) -> list[int]:
        """The smallest size in each dimension that all leaves have; ``[]`` with a scalar or a reserved field."""
        return shape_of(self.__dict__)

    def is_empty(self, recurse: bool = False) -> bool:
        """True without fields; with ``recurse``, also when there are only empty Batches all the way down."""
        return nulls.is_empty(self, recurse)

    def split(
        self: B, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: splitting.Rng = None
    ) -> Iterator[B]:
        """Yield minibatches of ``size`` rows each, the last one with what is left; of ``len(batch)`` rows in all.

        Where the fields of a plain batch have different lengths, the rows that only the longer ones have are left out,
        with a ``UserWarning`` that names these fields.

        Args:
            size: rows of a minibatch; -1 for all rows in one.
            shuffle: visit the rows in random order (a copy); without it minibatches are views.
            merge_last: let the last minibatch take a shorter rest in.
            rng: generator of numpy or torch, or seed, for the order; None uses numpy's global state, as
                ``np.random.seed`` sets it.

        Raises:
            SizeError: ``size`` is 0 or below -1 (an ``AssertionError`` too).
            StructureError: the fields of a record have different lengths, so that rows would be lost.
            NoLengthError: a field is a scalar, so there are no rows.
            SettingError: ``rng`` is not a source of randomness.
        """
        return splitting.split(self, size, shuffle, merge_last, rng)

    # ---- rows -----------------------------------------------------------------------------------------------------

    def set_rows(self, index: Index, value: object, *, strict: bool = False) -> None:
        """Write rows into every field at ``index``, from a dict, a Batch, or a list of these.

        Everything is checked before the first write, so a refused assignment changes nothing. Values are cast to the
        field's dtype if that keeps them: 2.0 goes into an integer field, 2.7 is refused, and so is a date that the
        field's unit is too fine or too coarse for. Masked values go into masked arrays alone.

        Args:
            index: anything that ``batch[index]`` takes, except names.
            value: the rows.
            strict: refuse rows that lack fields; otherwise those fields are set to zero (``None``) at ``index``, as
                Tianshou does.

        Raises:
            RowAssignmentError: unknown fields, missing ones with ``strict``, wrong shapes, values that would change or
                lose their mask.
            RowIndexError: a field cannot take the index.
            StructureError: fields on the same memory would have to hold different values there.
        """
        assignment.set_rows(self, index, value, strict)

    def set_array_at_key(self, arr: Any, key: str, index: Index = None, default_value: float | None = None) -> None:
        """Set a field, or some rows of it, from an array.

        Args:
            arr: the values, one for each row of the Batch, or for each row of ``index``.
            key: name of the field; created if it is new.
            index: the rows to write; None means all of them.
            default_value: what the other rows of a new field get. None makes them null: NaN, NaT, ``None`` among
                objects, masked in a masked array, so that :meth:`hasnull` and :meth:`dropnull` know them.

        Raises:
            StructureError: the number of values does not fit, or the field is a nested Batch.
            RowIndexError: the field cannot take the index.
            RowAssignmentError: a value or ``default_value`` does not fit the field's dtype, or rows of a new field get
                no value and its dtype, as that of integers or flags, has no null.
        """
        column.set_column(self, construct.to_leaf(arr), key, index, default_value)

    @staticmethod
    def empty(batch: B, index: Index = None) -> B:
        """A copy of ``batch`` with zeros (``None`` for objects) everywhere, or only in the rows at ``index``."""
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
            RowIndexError: a field cannot take the index.
            StructureError: a field on the same memory would change in other rows.
        """
        if index is None:
            conversion.map_leaves_in_place(self, nulls.empty_in_place)
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
        """Rows to columns: a list of dicts or Batches, one for each row, as a Batch of this class. Numbers are copied.

        Numbers become an array, arrays of numbers and tensors of equal shapes are stacked, dicts become nested Batches.
        All else becomes a column of the very same objects: text, lists whatever their lengths, values of several kinds;
        and so does, whatever the rows hold, a field that a record declares as ``NDArray[np.object_]``.

        Args:
            rows: the rows; fields keep the order in which they are first seen.
            missing: what to do with a key that some rows lack, in nested dicts too: ``"error"`` refuses, ``"none"``
                puts ``None`` there, in a column of objects, ``"zero"`` zeros (``None`` among objects).
            meta: the meta of the new Batch; None for that of rows that are Batches, where it is equal in all.

        Raises:
            StructureError: a row lacks a key, the error names both; or the meta of the rows differs.
            LeafError: ``rows`` is something else, or a key is not a string.
            TypeError: for a record, a field that it does not declare, or one that no row has.
            SettingError: there is no such ``missing``.
        """
        return from_rows(cls, rows, missing, meta)

    # ---- together -------------------------------------------------------------------------------------------------

    @overload
    @staticmethod
    def stack(batches: Iterable[J], axis: int = 0, missing: Missing = "pad", *, meta: MetaRule = "error") -> J: ...
    @overload
    @staticmethod
    def stack(
        batches: Iterable[C | Mapping[str, Any]], axis: int = 0, missing: Missing = "pad", *, meta: MetaRule = "error"
    ) -> C: ...
    @staticmethod
    def stack(batches: Iterable[Any], axis: int = 0, missing: Missing = "pad", *, meta: MetaRule = "error") -> Any:
        """Join along a new dimension, field by field. Data is copied once.

        Args:
            batches: Batches or dicts. Fields keep the order in which they are first seen.
            axis: where the new dimension goes.
            missing: ``"pad"`` fills fields that some lack with zeros (``None`` in object arrays), ``"error"`` refuses.
                A reserved field counts as lacking, and is always filled.
            meta: what becomes of meta that differs; see :meth:`cat`.

        Returns:
            A Batch of the class that all have in common, else a plain one; ``Batch()`` for an empty list.

        Raises:
            StructureError: other names, kinds or shapes, or other meta (a ``ValueError``).
        """
        return stack_trees(batches, axis, missing, construct.to_leaf, meta)

    @overload
    @staticmethod
    def cat(batches: Iterable[J], missing: Missing = "error", *, meta: MetaRule = "error") -> J: ...
    @overload
    @staticmethod
    def cat(batches: Iterable[C | Mapping[str, Any]], missing: Missing = "error", *, meta: MetaRule = "error") -> C: ...
    @staticmethod
    def cat(batches: Iterable[Any], missing: Missing = "error", *, meta: MetaRule = "error") -> Any:
        """Join along the rows, field by field. Data is copied once. Empty Batches are skipped.

        Args:
            batches: Batches or dicts. Fields keep the order in which they are first seen.
            missing: ``"error"`` refuses Batches with different fields, ``"pad"`` fills with zeros (``None`` in object
                arrays). A reserved field counts as lacking, and is always filled.
            meta: what becomes of the meta where the batches differ in a key, or some lack it: ``"error"`` refuses,
                ``"first"`` takes the value of the first that has it, ``"drop"`` leaves it out; or functions by key,
                each called with the list of the values, as ``{"step": max}``.

        Returns:
            A Batch of the class that all have in common, else a plain one; ``Batch()`` for an empty list.

        Raises:
            StructureError: other names, kinds or shapes, or other meta (a ``ValueError``).
        """
        return cat_trees(batches, missing, construct.to_leaf, meta)

    def stack_(
        self,
        batches: Iterable[Batch | Mapping[str, Any]],
        axis: int = 0,
        missing: Missing = "pad",
        *,
        meta: MetaRule = "error",
    ) -> None:
        """Become ``Batch.stack([self, *batches], axis)``; a Batch without fields takes no part."""
        parts: list[Any] = [*([self] if self.__dict__ else []), *as_list(batches)]
        copying.become(self, stack_trees(parts, axis, missing, construct.to_leaf, meta))

    def cat_(
        self,
        batches: Batch | Mapping[str, Any] | Iterable[Batch | Mapping[str, Any]],
        missing: Missing = "error",
        *,
        meta: MetaRule = "error",
    ) -> None:
        """Become ``Batch.cat([self, *batches])``; a single Batch may be given as it is."""
        more: list[Any] = [batches] if isinstance(batches, (Batch, Mapping)) else as_list(batches)
        copying.become(self, Batch.cat([self, *more], missing, meta=meta))

    # ---- conversion -----------------------------------------------------------------------------------------------

    def to_numpy(self) -> Batch:
        """A Batch with arrays in place of tensors. CPU memory is shared; see :func:`typedbatch.conversion.to_numpy`."""
        return conversion.tree_to_numpy(self)

    def to_numpy_(self) -> None:
        """Replace tensors by arrays, in this very Batch and its nested ones."""
        conversion.adopt(self, conversion.tree_to_numpy(self))

    def to_torch(self, dtype: Dtype | None = None, device: Device = "cpu") -> Batch:
        """A Batch with tensors in place of numeric arrays. Memory is shared where torch can use it.

        Args:
            dtype: dtype of the floating tensors. Integers and flags keep theirs: ``torch.bfloat16`` would round token
                ids. None keeps each leaf's own.
            device: device of the tensors.

        ``None``, text, object arrays and distributions stay; a distribution goes to ``device``.

        Raises:
            LeafError: a numeric dtype that torch lacks, as ``longdouble``.
            SettingError: torch has no such dtype or device, or the dtype is not a floating one.
        """
        return conversion.tree_to_torch(self, dtype, device)

    def to_torch_(self, dtype: Dtype | None = None, device: Device = "cpu") -> None:
        """Replace numeric arrays by tensors, in this very Batch and its nested ones; arguments as :meth:`to_torch`."""
        conversion.adopt(self, conversion.tree_to_torch(self, dtype, device))

    def to(self: B, device: Device | None = None, *, dtype: Dtype | None = None, non_blocking: bool = False) -> B:
        """A Batch of the same class whose tensors are on ``device``, as ``accelerate.send_to_device`` asks for it.

        Args:
            device: where the tensors go, those of distributions too; None leaves them where they are.
            dtype: dtype of the floating fields; integers, flags and distributions keep theirs. None keeps all.
            non_blocking: return before a copy from pinned memory to a GPU has ended, as ``torch.Tensor.to`` does.

        ``None``, text, dates and object arrays stay. As in torch, a tensor that is there already is shared.

        Raises:
            LeafError: a field is a numeric array of numpy, which has no device; :meth:`to_torch` makes it a tensor.
            SettingError: torch has no such dtype or device, or the dtype is not a floating one.
        """
        return moved(self, device, dtype, non_blocking)

    def pin_memory(self: B) -> B:
        """A Batch of the same class whose tensors are in pinned memory; a DataLoader with ``pin_memory=True`` calls it.

        ``None``, text, dates and object arrays stay.

        Raises:
            LeafError: a field is a numeric array of numpy, or a tensor that is not on the CPU, or there is no GPU.
        """
        return pinned(self)

    def to_at_least_2d(self: B) -> B:
        """A Batch whose arrays and tensors have two dimensions or more, its distributions a batch dimension. Views."""
        return conversion.map_leaves(self, conversion.at_least_2d)

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """The fields as a dict, nested Batches as dicts too if ``recursive``. Leaves are shared."""
        if not recursive:
            return dict(self.__dict__)
        return {k: Batch.to_dict(v) if kind_of(v) is BATCH else v for k, v in self.__dict__.items()}

    def to_list_of_dicts(self) -> list[dict[str, Any]]:
        """One dict per row.

        Raises:
            NoLengthError: a field is a scalar, so there are no rows.
        """
        return [Batch.to_dict(row) for row in Batch.__iter__(self)]

    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: bool = False) -> Batch:
        """Call a function on every leaf, ``None`` and objects included, and store what it returns, converted as usual.

        Args:
            values_transform: takes a leaf, returns the new one.
            inplace: change this Batch, nested ones included, instead of making a new one.

        Returns:
            The new Batch, or this one. When the function raises, nothing has changed.
        """
        result = conversion.map_leaves(self, lambda leaf: construct.to_leaf(values_transform(leaf)))
        if not inplace:
            return result
        conversion.adopt(self, result)
        return self

    # ---- nulls ----------------------------------------------------------------------------------------------------

    def isnull(self) -> Batch:
        """A Batch of arrays and tensors of bools, true where a value is ``None``, NaN, NaT or masked."""
        return conversion.map_leaves(self, nulls.is_null)

    def hasnull(self) -> bool:
        """True when any value is ``None``, NaN, NaT or masked."""
        return nulls.has_null(self)

    def dropnull(self: B) -> B:
        """The rows in which no field has a null; every field keeps its shape beyond the rows.

        An object array that held numbers beside ``None`` becomes numeric.

        Raises:
            StructureError: the fields have different lengths.
            NoLengthError: a field is a scalar.
        """
        return nulls.drop_null(self)

    def replace_empty_batches_by_none(self) -> None:
        """Replace reserved fields (``Batch()``) by ``None``, at every depth, in place."""
        nulls.reserved_to_none(self)

    # ---- equality, copies, display --------------------------------------------------------------------------------

    def __eq__(self, other: object, /) -> bool:
        """Same fields in any order, same shapes, dtypes and values; a tensor equals an equal array. Never raises."""
        return equality.equal(self, other) if isinstance(other, Batch) else NotImplemented

    def allclose(self: B, other: B, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """As ``==``, but dtypes may differ and numbers be apart by ``atol + rtol * abs(other)``. Never raises."""
        return kind_of(other) is BATCH and equality.allclose(self, other, rtol, atol, equal_nan)

    def copy(self: B) -> B:
        """New Batches, nested ones too, with the same leaves: arrays are shared."""
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


Tree.__plain__ = Batch

if TYPE_CHECKING:

    class DynamicBatch(Batch):
        """``Batch`` itself at run time. Checkers take its attributes on trust: any may be set, and reads as ``Any``."""

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

else:
    DynamicBatch = Batch

objects: Final = construct.objects
cat: Final = Batch.cat
stack: Final = Batch.stack
