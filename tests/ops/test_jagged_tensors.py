"""Jagged tensors of torch.nested as fields: rows of them are taken and joined, or refused by the field's name."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import Batch, BatchRecord, SchemaError, conforms, validate
from typedbatch.errors import RowIndexError, StructureError

ROWS = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]


def jagged(rows: list[list[float]] = ROWS) -> Batch:
    tensor = torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)
    return Batch(uid=np.arange(len(rows)), tokens=tensor)


def lists(batch: Batch) -> list[list[float]]:
    return [row.tolist() for row in batch.tokens.unbind()]


@pytest.mark.parametrize(
    "index", [slice(1, 3), slice(None, None, -1), [2, 0, 0], np.array([True, False, True]), torch.tensor([1])]
)
def test_rows_are_those_of_a_list(index: Any) -> None:
    numbers = np.arange(3)[np.asarray(index) if not isinstance(index, slice) else index]
    assert lists(jagged()[index]) == [ROWS[i] for i in numbers]
    assert jagged()[2].tokens.tolist() == ROWS[2]


def test_split_and_cat():
    parts = list(jagged().split(2, shuffle=False))
    assert [lists(part) for part in parts] == [ROWS[:2], ROWS[2:]]
    assert lists(Batch.cat(parts)) == ROWS
    assert sorted(map(tuple, (lists(part)[0] for part in jagged().split(1, rng=0)))) == sorted(map(tuple, ROWS))


class Declared(BatchRecord):
    ids: Float[Tensor, "N T"]
    logp: Float[Tensor, "N T"] | None


def test_equal_lengths_are_one_size():
    tokens, same, other = (jagged(rows).tokens for rows in (ROWS, ROWS, ROWS[::-1]))
    assert conforms(Batch(ids=tokens, logp=same), Declared)
    assert conforms(Batch(ids=jagged([[1.0], [2.0]]).tokens, logp=torch.ones(2, 1)), Declared)
    assert not conforms(Batch(ids=tokens, logp=other), Declared)
    with pytest.raises(SchemaError, match=r"T is \(2, 1, 3\) here, but \(3, 1, 2\) in logp"):
        validate(Batch(ids=tokens, logp=other), Declared)


def test_a_gradient_goes_through():
    values = torch.ones(3, requires_grad=True)
    tensor = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 1, 3]))
    Batch(tokens=tensor)[1:].tokens.values().sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [0, 1, 1]


def test_other_nested_tensors_are_refused_by_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strided = Batch(tokens=torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    with pytest.raises(
        RowIndexError, match=r"'tokens': nested torch f32 cannot be indexed by .*layout=torch.jagged.*Ragged"
    ):
        strided[0:1]
    with pytest.raises(RowIndexError, match="'tokens': nested torch f32 cannot be indexed by "):
        strided[[1, 0]]
    with pytest.raises(
        StructureError, match=r"'tokens': .* cannot be joined; build nested tensors with layout=torch\.jagged"
    ):
        Batch.cat([jagged(), {"uid": [1], "tokens": torch.ones(1, 2)}])
