"""A ``collate_fn`` for rows with tokens, in torch's ``DataLoader`` and Hugging Face's ``Trainer``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import torch

from typedbatch._declaration import number_fields, object_fields
from typedbatch._ops.from_rows import columns_of, fields_of_rows, lists_to_arrays
from typedbatch._tree.leaves import KINDS, TENSOR, describe
from typedbatch._tree.rows import at_least
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, SettingError, StructureError, under
from typedbatch.posttraining.masks import as_bools
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Sort
from typedbatch.sequences import Side

B = TypeVar("B", bound=BatchProtocol)
_MASK_OF: Final = {
    "input_ids": "attention_mask",
    "prompt_ids": "prompt_mask",
    "response_ids": "response_mask",
    "chosen_ids": "chosen_mask",
    "rejected_ids": "rejected_mask",
}


class CollateTokens(Generic[B]):
    """Rows, dicts with lists of different lengths, as one batch of tensors: ``DataLoader(rows, collate_fn=collate)``.

    Fields of tokens are named, as whether a list is one of tokens is not seen by it. They are padded, or become a
    :class:`~typedbatch.Ragged`; fields called ``..._mask`` become bools; ``input_ids``, ``prompt_ids``,
    ``response_ids``, ``chosen_ids`` and ``rejected_ids`` get ``pad_token_id`` and a mask of where there are tokens,
    unless the rows have one. In each row, fields that ``into`` declares with one name for the tokens, as ``"N R"``,
    have as many of them, and so have ids and their mask.

    The other fields are columns as :meth:`~typedbatch.Batch.from_rows` makes them: numbers and arrays of one shape a
    tensor, text and lists objects. Floats of Python have torch's default dtype. All data is copied.

    Args:
        into: the record that the batch is to be, validated; or ``Batch``.
        left: fields padded on the left, as prompts are.
        right: fields padded on the right.
        ragged: by the name of a field of the batch, the fields of the rows that go into one ``Ragged``:
            ``{"tokens": ["input_ids", "loss_mask"]}``.
        pad_token_id: what padded places of ids get.
        padding: what padded places of other fields get, ``{"labels": -100}``; zero where none is said.
        multiple_of: padded lengths are made larger until they are a multiple of this.

    Raises:
        SettingError: a field is named twice, ids are padded without ``pad_token_id``, ``padding`` names a field that is
            not padded, or fields of the same tokens are padded on different sides.
        SizeError: ``multiple_of`` is below 1.
        DeclarationError: ``into`` cannot be read.
    """

    def __init__(
        self,
        into: type[B],
        *,
        left: Collection[str] = (),
        right: Collection[str] = (),
        ragged: Mapping[str, Sequence[str]] | None = None,
        pad_token_id: int | None = None,
        padding: Mapping[str, float] | None = None,
        multiple_of: int = 1,
    ) -> None:
        self.into = into
        self.ragged: dict[str, tuple[str, ...]] = {name: tuple(fields) for name, fields in (ragged or {}).items()}
        self.sides: dict[str, Side] = {**dict.fromkeys(left, "left"), **dict.fromkeys(right, "right")}
        self.multiple_of: int = at_least(1, multiple_of, "multiple_of")
        named = [*left, *right, *(name for fields in self.ragged.values() for name in fields)]
        if twice := [name for name in named if named.count(name) > 1]:
            raise SettingError(f"{twice[0]!r} is named twice; a field is padded on one side, or ragged")
        ids = [name for name in self.sides if name in _MASK_OF]
        if ids and pad_token_id is None:
            raise SettingError(f"pad_token_id= is what padded places of {ids[0]!r} get")
        self.padding: dict[str, float] = {**dict.fromkeys(ids, pad_token_id or 0), **(padding or {})}
        if unknown := [name for name in self.padding if name not in self.sides]:
            raise SettingError(f"padding= names {unknown[0]!r}, which is in neither left= nor right=")
        self.together: list[list[str]] = _together(into, self.sides)
        for first, *others in self.together:
            if apart := [name for name in others if self.sides[name] != self.sides[first]]:
                raise SettingError(f"{first!r} and {apart[0]!r} are of the same tokens, so they are padded on one side")

    def __call__(self, rows: Iterable[Mapping[str, Any] | Batch]) -> B:
        """One batch of the rows.

        Raises:
            LeafError: rows that are no dicts or Batches, or a field of tokens that is not a list, array or tensor.
            MissingFieldError: no row has a field that is named.
            StructureError: a row lacks a field that others have, or fields of the same tokens, as ``into`` declares
                them or in one ``Ragged``, have different lengths.
            FieldNameError: rows have a field called as a ``Ragged`` of the batch is.
            SchemaError: the batch is not what ``into`` declares.
        """
        given = fields_of_rows(rows)
        named = {*self.sides, *(name for fields in self.ragged.values() for name in fields)}
        others = [{name: value for name, value in row.items() if name not in named} for row in given]
        columns = _columns(others, self.into)
        sequences = {name: _sequences(name, given) for name in self.sides}
        for names in self.together:
            _require_same_lengths({name: sequences[name] for name in names})
        for name, side in self.sides.items():
            self._pad(name, side, sequences[name], columns)
        for name, fields in self.ragged.items():
            if name in columns:
                raise FieldNameError("rows have a field called like the Ragged; give it another name", name)
            with under(name):
                columns[name] = _flags(Ragged.from_lists({field: _sequences(field, given) for field in fields}))
        batch: Any = Batch(columns)
        return batch if issubclass(Batch, self.into) else extend(batch, self.into)

    def _pad(self, name: str, side: Side, sequences: list[Any], columns: dict[str, Any]) -> None:
        """Add a field of tokens, and its mask."""
        ragged = Ragged.from_lists({name: sequences})
        padded = ragged.padded(side, value=self.padding.get(name, 0), multiple_of=self.multiple_of)
        columns[name] = as_bools(padded[name], name) if name.endswith("_mask") else padded[name]
        mask = _MASK_OF.get(name)
        if mask is not None and mask not in self.sides:
            columns.setdefault(mask, ragged.mask(side, multiple_of=self.multiple_of))


def _together(into: type, padded: Collection[str]) -> list[list[str]]:
    """The padded fields that are of the same tokens: with one name for the second dimension, or ids and their mask."""
    groups: dict[str, list[str]] = {}
    for field in schema_of(into).fields:
        tokens = {option.shape.dims[1] for option in field.options if len(option.shape.dims) > 1}
        if field.name in padded and len(tokens) == 1 and (dim := tokens.pop()).sort is Sort.NAMED:
            groups.setdefault(dim.text, []).append(field.name)
    masked = [[name, mask] for name, mask in _MASK_OF.items() if name in padded and mask in padded]
    return [*groups.values(), *masked]


def _require_same_lengths(fields: Mapping[str, Sequence[Any]]) -> None:
    """Raise an error unless all fields have as many tokens in each row.

    Raises:
        StructureError: they have not.
    """
    (first, wanted), *others = fields.items()
    for name, found in others:
        for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one.shape[:1] != other.shape[:1]:
                raise StructureError(f"row {row}: {name} has {_tokens(one)}, {first} {_tokens(other)}")


def _tokens(sequence: Any) -> str:
    return f"{len(sequence)} tokens" if sequence.ndim else "a number"


def _columns(rows: list[dict[str, Any]], into: type) -> dict[str, Any]:
    """The fields that are not of tokens, as tensors and objects."""
    found = lists_to_arrays(columns_of(rows, "error", object_fields[into]), number_fields[into])
    columns: dict[str, Any] = Batch(found).to_torch().__dict__
    for name, column in columns.items():
        if KINDS[type(column)] is TENSOR and type(rows[0][name]) is float:
            columns[name] = column.to(torch.get_default_dtype())
    return columns


def _sequences(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What each row has as a field of tokens, as tensors."""
    found = [row[name] for row in rows if name in row]
    if not found:
        raise MissingFieldError("the rows", name, list(rows[0]) if rows else [])
    if len(found) < len(rows):
        row = next(number for number, row in enumerate(rows) if name not in row)
        raise StructureError(f"row {row} has no such key, and others have", name)
    with under(name):
        return [_sequence(name, value) for value in found]


def _sequence(name: str, value: Any) -> Any:
    if KINDS[type(value)] is TENSOR:
        return value
    # torch makes floats of an empty list
    is_whole = isinstance(value, list) and not value and (name in _MASK_OF or name.endswith("_mask"))
    try:
        return torch.tensor(value, dtype=torch.int64 if is_whole else None)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LeafError(f"tokens are a list of numbers, an array or a tensor, got {describe(value)}") from error


def _flags(ragged: Ragged[Batch]) -> Ragged[Batch]:
    """The same with bools as masks."""
    fields: dict[str, Any] = ragged.values.__dict__
    for name in fields:
        if name.endswith("_mask"):
            fields[name] = as_bools(fields[name], name)
    return ragged
