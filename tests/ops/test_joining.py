"""Batches joined along a new dimension or along the rows, and a batch cut into pieces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_array
from typedbatch import Batch, BatchRecord, Ragged, SampleBatch, cat, errors
from typedbatch.errors import StructureError, TypedBatchError


def test_cat_takes_no_axis():
    with pytest.raises(TypeError):
        Batch.cat([Batch(a=[[1]])], axis=1)


def test_cat_of_rows_made_from_dicts_and_batches():
    first = Batch(a=[{"b": np.float64(1.0), "d": Batch(e=np.array(3.0))}])
    second = Batch(a=[{"b": np.float64(4.0), "d": {"e": np.array(6.0)}}])
    joined = Batch.cat([first, second])
    assert_array(joined.a.b, [1.0, 4.0])
    assert_array(joined.a.d.e, [3.0, 6.0])
    assert_array(first.a.b, [1.0])


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_joining_nothing_gives_an_empty_batch(join):
    assert join([]) == Batch()
    assert join([Batch(), Batch()]) == Batch()


def test_in_place_into_an_empty_batch():
    joined, stacked = Batch(), Batch()
    joined.cat_([Batch(a=[1]), Batch(a=[2])])
    stacked.stack_([{"a": 1}, {"a": 2}])
    assert_array(joined.a, [1, 2])
    assert_array(stacked.a, [1, 2])


class Pair(BatchRecord):
    a: Any
    b: Any


CAT = {
    "cat": cat, "np.concatenate": np.concatenate, "pad": lambda parts: cat(parts, missing="pad"),
    "widths": lambda parts: cat(parts, widths="pad"), "cat_": lambda parts: parts[0].cat_(parts[1:]),
}  # fmt: skip
ROWS = {
    "arrays": lambda n: np.arange(n),
    "masked arrays": lambda n: np.ma.array(np.arange(n), mask=np.zeros(n, bool)),
    "objects": lambda n: np.array(["x"] * n, object),
    "tensors": torch.arange,
    "batches": lambda n: Batch(c=np.arange(n), d=Batch(), e=None),
    "tensors in batches": lambda n: Batch(c=torch.arange(n)),
    "distributions": lambda n: Normal(torch.zeros(n), torch.ones(n)),
    "ragged": lambda n: Ragged.from_lists({"ids": [[1]] * 4})[:n],
}
JOINS = pytest.mark.parametrize("join", CAT.values(), ids=CAT)
KINDS_OF_ROWS = pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
LENGTHS = pytest.mark.parametrize("lengths", [[(3, 2), (3, 3)], [(3, 3), (2, 3)], [(3, 2), (2, 3)], [(1, 0), (0, 1)]])


@JOINS
@KINDS_OF_ROWS
@LENGTHS
def test_records_whose_fields_differ_in_length_are_not_joined(join, rows, lengths):
    parts = [Pair(a=np.zeros(n), b=rows(m)) for n, m in lengths]
    with pytest.raises(
        errors.StructureError, match=r"batch [01] has fields of different lengths: \S+ has [13], others [20]"
    ):
        join(parts)
    assert [(len(part.a), part.b) for part in parts] == [
        (n, part.b) for (n, _), part in zip(lengths, parts, strict=True)
    ]


@JOINS
@KINDS_OF_ROWS
@LENGTHS
def test_plain_batches_whose_fields_differ_in_length_are_joined_with_a_warning(join, rows, lengths):
    for parts in (
        [Batch(a=np.zeros(n), b=rows(m)) for n, m in lengths],
        [Batch(nested=Batch(b=rows(m)), a=np.zeros(n)) for n, m in lengths],
        [Batch(nested=Pair(a=np.zeros(n), b=rows(m))) for n, m in lengths],
    ):
        with pytest.warns(
            UserWarning, match=r"batch [01] has fields of different lengths: .* later rows no longer match"
        ):
            join(parts)


def test_the_warning_is_one_and_names_the_line_of_the_caller():
    batch = Batch(a=[1, 2], b=[1])
    for join in (lambda: cat([batch] * 3), lambda: batch.cat_([batch] * 2)):
        with pytest.warns(UserWarning, match="b") as caught:
            join()
        assert [warning.filename for warning in caught] == [__file__]


@KINDS_OF_ROWS
@pytest.mark.parametrize("cls", [Batch, Pair])
def test_nothing_is_said_of_batches_of_equal_lengths_or_of_one_batch(cls, rows):
    parts = [cls(a=np.zeros(n), b=rows(n)) for n in (2, 3)]
    assert len(cat(parts).a) == len(cat([*parts, Batch()])) == 5
    assert len(cat([cls(a=np.zeros(2), b=None), cls(a=np.zeros(3), b=None)])) == 5
    cat([Batch(), cls(a=np.zeros(3), b=rows(2))])


def test_sample_batches_whose_columns_differ_in_length_are_not_joined():
    whole = SampleBatch(obs=np.zeros(3), actions=np.zeros(3))
    cut = SampleBatch(obs=np.zeros(3), actions=np.zeros(2))
    for first, second in ((whole, cut), (cut, whole)):
        with pytest.raises(errors.StructureError, match="different lengths: obs has 3, others 2"):
            first.concat(second)


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
@pytest.mark.parametrize("parts", [[Batch(a=[1]), Batch(a=[2])], [Batch(a=[1]), Batch(b=[2])]], ids=["same", "other"])
def test_a_misspelt_missing_policy_is_no_policy(join, parts):
    with pytest.raises(TypedBatchError, match="eror"):
        join(parts, missing="eror")


@pytest.mark.parametrize("gap", [{}, Batch()], ids=["dict", "Batch"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_empty_row_is_a_row(gap, position):
    rows: list[Any] = [{"a": 1}, {"a": 2}]
    rows.insert(position, gap)
    for stacked in (Batch.stack(rows), Batch(rows)):
        expected = [1, 2]
        expected.insert(position, 0)
        assert_array(stacked.a, expected)


def test_fields_keep_the_order_in_which_they_are_first_seen():
    batches = [Batch(z=[1], b=[1]), Batch(y=[1], b=[2]), Batch(a=[1], z=[3])]
    assert list(Batch.stack(batches).keys()) == ["z", "b", "y", "a"]
    assert list(Batch.cat(batches, missing="pad").keys()) == ["z", "b", "y", "a"]
    assert list(Batch([{"z": 1}, {"a": 1, "z": 2}]).keys()) == ["z", "a"]


ORDER = """
from typedbatch import Batch
names = ["obs", "act", "rew", "done", "info", "policy", "weight", "adv"]
parts = [Batch({name: [i] for name in names[i:i + 5]}) for i in range(4)]
rows = Batch([part.to_dict() for part in parts])
for joined in (Batch.stack(parts), Batch.cat(parts, missing="pad"), rows, parts[0] + parts[0]):
    print(list(joined.keys()))
print(Batch(s={"c", "a", "b"}, t=frozenset("xyz"), o=[{"q", "r"}, None]))
try:
    Batch.cat(parts)
except ValueError as error:
    print(error)
try:
    Batch(a=1)[0] = Batch.stack(parts)
except ValueError as error:
    print(error)
"""


def test_order_and_texts_do_not_depend_on_the_hash_seed():
    printed = [
        subprocess.run(
            [sys.executable, "-c", ORDER], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    ]  # fmt: skip
    assert "['obs', 'act', 'rew', 'done', 'info', 'policy', 'weight', 'adv']" in printed[0]
    assert len(set(printed)) == 1


def test_split_is_lazy_and_follows_numpys_global_seed():
    batch = Batch(a=np.arange(20))
    pieces = batch.split(6)
    assert isinstance(pieces, Iterator)
    np.random.seed(5)
    first = [piece.a.tolist() for piece in batch.split(6)]
    np.random.seed(5)
    assert [piece.a.tolist() for piece in batch.split(6)] == first


UNEQUAL = r"split\(\) uses the first 2 rows, the length of the shortest field, and drops the rest: a has 3, c\.d has 4"


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_plain_batch_of_unequal_fields_is_cut_to_its_shortest_with_a_warning(shuffle):
    batch = Batch(a=np.arange(3), b=np.ones((2, 2, 3)), c=Batch(d=torch.arange(4)))
    with pytest.warns(UserWarning, match=UNEQUAL) as caught:
        pieces = list(batch.split(1, shuffle))
    assert caught[0].filename == __file__
    assert sorted(piece.a.item() for piece in pieces) == [0, 1]
    assert all(piece.c.d.tolist() == piece.a.tolist() and piece.b.shape == (1, 2, 3) for piece in pieces)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_record_of_unequal_fields_is_refused_before_the_first_piece(shuffle):
    batch = Pair(a=np.zeros(3), b=np.ones(2))
    with pytest.raises(StructureError, match=r"different lengths: a has 3, others 2; rows would be lost"):
        batch.split(1, shuffle)


def test_a_generator_of_torch_shuffles_as_torch_itself():
    batch = Batch(a=np.arange(9), t=torch.arange(9))
    pieces = list(batch.split(4, rng=torch.Generator().manual_seed(3)))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3)).tolist()
    assert [row for piece in pieces for row in piece.t.tolist()] == order
    assert [row for piece in pieces for row in piece.a.tolist()] == order
