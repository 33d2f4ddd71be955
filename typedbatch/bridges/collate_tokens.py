"""A ``collate_fn`` for rows of tokens, for torch's ``DataLoader`` and Hugging Face's ``Trainer``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch

from typedbatch._core.declaration import number_fields, object_fields
from typedbatch._core.kinds import KINDS, TENSOR, describe
from typedbatch._core.lengths import require_at_least
from typedbatch._ops.from_rows import columns_of, fields_of_rows, lists_to_arrays
from typedbatch._ops.widths import MASK_OF, PER_TOKEN
from typedbatch._validation.validate import extend
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, SettingError, StructureError, under
from typedbatch.posttraining.token_fields import as_bools
from typedbatch.protocols import BatchProtocol
from typedbatch.ragged import Ragged
from typedbatch.schema import schema_of
from typedbatch.schema.dims import Sort
from typedbatch.sequences import Side

B = TypeVar("B", bound=BatchProtocol)


class CollateTokens(Generic[B]):
    """Collates rows, which are dicts with lists of different lengths, to one batch of tensors.

    Use it as ``DataLoader(rows, collate_fn=collate)``. Fields of tokens must be named, since a list does not show
    whether it is one of tokens. They are padded, or become a :class:`~typedbatch.Ragged`. Fields with names
    ``..._mask`` become bools. ``input_ids``, ``prompt_ids``, ``response_ids``, ``chosen_ids`` and ``rejected_ids`` are
    padded with ``pad_token_id`` and get a mask of the tokens, unless the rows have one. In each row, fields must have
    the same number of tokens if ``into`` declares them with the same name for the dimension of tokens, as in ``"N R"``.
    The same is true for ids and their mask, and without declarations for ``response_ids`` and ``loss_mask`` and the
    like (``typedbatch.posttraining.PER_TOKEN``).

    The other fields are columns as in :meth:`~typedbatch.Batch.from_rows`: numbers and arrays of one shape become a
    tensor, text and lists become objects. Python floats get torch's default dtype. All data is copied.

    Args:
        into: The record for the batch, which is validated, or ``Batch``.
        left: Names of fields padded on the left, such as prompts.
        right: Names of fields padded on the right.
        ragged: Fields of the rows that go into one ``Ragged``, by the name of the batch's field: ``{"tokens":
            ["input_ids", "loss_mask"]}``.
        pad_token_id: Id for padded positions.
        padding: Values for padded positions of other fields, as in ``{"labels": -100}``. The default is zero.
        multiple_of: Divisor of padded lengths, which are increased to a multiple of it.

    Raises:
        SettingError: a field is named twice, ids are padded without ``pad_token_id``, ``padding`` names a field that is
            not padded, or fields of the same tokens are padded on different sides.
        SizeError: ``multiple_of`` is below 1.
        DeclarationError: the declaration of ``into`` is invalid.
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
        self.multiple_of: int = require_at_least(1, multiple_of, "multiple_of")
        named = [*left, *right, *(name for fields in self.ragged.values() for name in fields)]
        if twice := [name for name in named if named.count(name) > 1]:
            raise SettingError(f"{twice[0]!r} is named twice; a field is padded on one side, or ragged")
        ids = [name for name in self.sides if name in MASK_OF]
        if ids and pad_token_id is None:
            raise SettingError(f"{ids[0]!r} is padded; pass pad_token_id=, the id for padded positions")
        self.padding: dict[str, float] = {**dict.fromkeys(ids, pad_token_id or 0), **(padding or {})}
        if unknown := [name for name in self.padding if name not in self.sides]:
            raise SettingError(f"padding= names {unknown[0]!r}, which is in neither left= nor right=")
        self.together: list[list[str]] = _fields_of_same_tokens(into, self.sides)
        for first, *others in self.together:
            if apart := [name for name in others if self.sides[name] != self.sides[first]]:
                text = f"{first!r} and {apart[0]!r} have the same tokens, so they must be padded on the same side"
                raise SettingError(text)

    def __call__(self, rows: Iterable[Mapping[str, Any] | Batch], *, meta: Mapping[str, Any] | None = None) -> B:
        """Collate rows to a batch.

        Args:
            rows: Rows, as dicts or as rows of a batch.
            meta: Meta of the batch, which is not copied further than one level.

        Raises:
            LeafError: a row is not a dict or Batch, or a field of tokens is not a list, array or tensor.
            MissingFieldError: the rows lack a field that is named.
            StructureError: a row lacks a field that others have, or fields of the same tokens, as declared by ``into``
                or in one ``Ragged``, have different lengths.
            FieldNameError: rows have a field with the name of a ``Ragged``.
            SchemaError: the batch does not match ``into``.
        """
        row_fields = fields_of_rows(rows)
        named = {*self.sides, *(name for fields in self.ragged.values() for name in fields)}
        others = [{name: value for name, value in row.items() if name not in named} for row in row_fields]
        found = lists_to_arrays(columns_of(others, "error", object_fields[self.into]), number_fields[self.into])
        columns: dict[str, Any] = Batch(found).to_torch().__dict__
        for name, column in columns.items():
            if KINDS[type(column)] is TENSOR and type(others[0][name]) is float:
                columns[name] = column.to(torch.get_default_dtype())
        sequences = {name: _sequences(name, row_fields) for name in self.sides}
        for first, *rest in self.together:
            for name in rest:
                for row, parts in enumerate(zip(sequences[name], sequences[first], strict=True)):
                    own, expected = parts
                    if own.shape[:1] != expected.shape[:1]:
                        has, but = (f"{len(part)} tokens" if part.ndim else "a number" for part in parts)
                        raise StructureError(f"row {row}: {name} has {has}, but {first} has {but}")
        for name, side in self.sides.items():
            ragged = Ragged.from_lists({name: sequences[name]})
            padded = ragged.padded(side, value=self.padding.get(name, 0), multiple_of=self.multiple_of)
            columns[name] = as_bools(padded[name], name) if name.endswith("_mask") else padded[name]
            mask = MASK_OF.get(name)
            if mask is not None and mask not in self.sides:
                columns.setdefault(mask, ragged.mask(side, multiple_of=self.multiple_of))
        for name, fields in self.ragged.items():
            if name in columns:
                raise FieldNameError("rows have a field with the name of the Ragged; give it another name", name)
            with under(name):
                ragged = Ragged.from_lists({field: _sequences(field, row_fields) for field in fields})
                values: dict[str, Any] = ragged.values.__dict__
                values.update({field: as_bools(values[field], field) for field in values if field.endswith("_mask")})
                columns[name] = ragged
        batch: Any = Batch(columns, meta=meta)
        return batch if issubclass(Batch, self.into) else extend(batch, self.into)


def _fields_of_same_tokens(into: type, padded: Collection[str]) -> list[list[str]]:
    """Return groups of padded fields that have the same tokens, as :class:`CollateTokens` describes them."""
    groups: dict[str, list[str]] = {}
    for field in schema_of(into).fields:
        dim = field.dim(1)
        if field.name in padded and dim is not None and dim.sort is Sort.NAMED:
            groups.setdefault(dim.text, []).append(field.name)
    if "response_ids" in padded and not any("response_ids" in group for group in groups.values()):
        groups["response_ids"] = [name for name in ("response_ids", *PER_TOKEN) if name in padded]
    masked = [[name, mask] for name, mask in MASK_OF.items() if name in padded and mask in padded]
    return [*groups.values(), *masked]


def _sequences(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the values of a field of tokens as tensors, one for each row."""
    found = [row[name] for row in rows if name in row]
    if not found:
        raise MissingFieldError("the rows", name, list(rows[0]) if rows else [])
    if len(found) < len(rows):
        row = next(number for number, row in enumerate(rows) if name not in row)
        raise StructureError(f"row {row} lacks this key, but other rows have it", name)
    sequences = []
    for value in found:
        # torch would create a tensor of floats from an empty list
        is_integer = isinstance(value, list) and not value and (name in MASK_OF or name.endswith("_mask"))
        try:
            is_tensor = KINDS[type(value)] is TENSOR
            sequences.append(value if is_tensor else torch.tensor(value, dtype=torch.int64 if is_integer else None))
        except (TypeError, ValueError, RuntimeError) as error:
            text = f"tokens must be a list of numbers, an array or a tensor, got {describe(value)}"
            raise LeafError(text, name) from error
    return sequences
