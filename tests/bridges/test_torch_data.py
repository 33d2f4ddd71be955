"""Batches in torch's DataLoader: rows, minibatches, workers and samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, WeightedRandomSampler

from tests.strategies import batches
from typedbatch import Batch, RolloutBatch
from typedbatch._core.lengths import equal_rows
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.errors import LeafError, NoLengthError, RowIndexError, StructureError, TypedBatchError


class RowByRow(torch.utils.data.Dataset[Batch]):
    """A dataset that knows nothing of several rows at once."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: int) -> Batch:
        return self.batch[index]


def rollout(rows: int = 10) -> RolloutBatch:
    n = np.arange(rows)
    flags = n % 5 == 4
    return RolloutBatch(
        obs={"cam": np.stack([n, n + 0.5], 1), "ids": torch.arange(rows)},
        act=n,
        rew=torch.arange(rows) / 2,
        terminated=flags,
        truncated=~flags,
        obs_next={"cam": np.stack([n + 1, n + 1.5], 1), "ids": torch.arange(rows) + 1},
        info={"name": np.array([f"row {i}" for i in n], object)},
    )


def loaded(dataset: Any, **options: Any) -> list[Any]:
    return list(DataLoader(dataset, collate_fn=collate, **options))


datasets = pytest.mark.parametrize("dataset", [BatchDataset, RowByRow])


# ---- loaders ---------------------------------------------------------------------------------------------------------


@datasets
@pytest.mark.parametrize("workers", [0, 2])
def test_all_rows_in_order(dataset, workers):
    pieces = loaded(dataset(rollout()), batch_size=4, num_workers=workers)
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert Batch.cat(pieces) == rollout()
    for piece in pieces:
        assert type(piece) is RolloutBatch
        assert isinstance(piece.obs.ids, torch.Tensor)
        assert isinstance(piece.obs.cam, np.ndarray)
        assert piece.act.dtype == np.int64
        assert piece.info.name.dtype == object


@datasets
@pytest.mark.parametrize("workers", [0, 2])
def test_shuffled_rows_stay_together(dataset, workers):
    generator = torch.Generator().manual_seed(0)
    pieces = loaded(dataset(rollout()), batch_size=3, shuffle=True, num_workers=workers, generator=generator)
    batch: Any = Batch.cat(pieces)
    order = batch.act
    assert order.tolist() != sorted(order.tolist())
    assert sorted(order.tolist()) == list(range(10))
    assert batch == rollout()[order]


@datasets
def test_the_last_piece_may_be_dropped(dataset):
    pieces = loaded(dataset(rollout()), batch_size=4, drop_last=True)
    assert [piece.act.tolist() for piece in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@datasets
def test_samplers(dataset):
    data = dataset(rollout())
    weights = [1.0 if i == 7 else 0.0 for i in range(10)]
    always = loaded(data, batch_size=3, sampler=WeightedRandomSampler(weights, 5))
    assert [piece.act.tolist() for piece in always] == [[7, 7, 7], [7, 7]]
    again = loaded(data, batch_size=4, sampler=RandomSampler(data, replacement=True, num_samples=4))
    assert again[0] == rollout()[again[0].act]
    by_hand = loaded(data, batch_sampler=[[3, 1], [9]])
    assert [piece.act.tolist() for piece in by_hand] == [[3, 1], [9]]
    assert len(loaded(data, batch_size=5, sampler=SequentialSampler(data))) == 2


def test_one_row_at_a_time_without_a_batch_size():
    rows = list(DataLoader(BatchDataset(rollout(3)), batch_size=None, collate_fn=collate))
    assert [row.act for row in rows] == [0, 1, 2]
    assert type(rows[0]) is RolloutBatch


def test_numpy_and_torch_come_out_as_they_went_in():
    arrays, tensors = rollout().to_numpy(), rollout().to_torch()
    for batch, kind in ((arrays, np.ndarray), (tensors, torch.Tensor)):
        for dataset in (BatchDataset, RowByRow):
            piece = loaded(dataset(batch), batch_size=4)[0]
            assert all(type(leaf) is kind for leaf in (piece.rew, piece.act, piece.obs.cam))


# ---- the two halves --------------------------------------------------------------------------------------------------


@given(batches(min_rows=1), st.data())
def test_several_rows_are_those_one_by_one(batch, data):
    if equal_rows_or_none(batch):
        indices = data.draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=4))
        dataset = BatchDataset(batch)
        assert dataset.__getitems__(indices) == batch[indices]
        assert dataset[indices[0]] == batch[indices[0]]
        assert collate(dataset.__getitems__(indices)) == batch[indices]


def equal_rows_or_none(batch: Batch) -> int | None:
    try:
        return equal_rows(batch.__dict__)
    except (NoLengthError, StructureError):
        return None


def test_the_batch_is_shared_and_its_rows_are_views():
    batch = rollout()
    dataset = BatchDataset(batch)
    assert dataset.batch is batch
    assert np.shares_memory(dataset[2].obs.cam, batch.obs.cam)
    taken = dataset.__getitems__([1, 2])
    assert not np.shares_memory(taken.obs.cam, batch.obs.cam)
    assert len(dataset) == 10


def test_collate_gives_the_batch_that_is_made_already():
    batch = rollout()
    assert collate(batch) is batch


def test_collate_of_rows():
    rows = [Batch(a=i, b={"c": torch.tensor(i), "o": "text"}) for i in range(3)]
    batch = collate(rows)
    assert batch == Batch(a=[0, 1, 2], b={"c": torch.arange(3), "o": np.array(["text"] * 3, object)})
    assert type(collate([rollout()[0], rollout()[1]])) is RolloutBatch


def test_steps_become_sequences():
    pieces = [rollout()[:4], rollout()[4:8]]
    assert collate(pieces).act.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([Batch(a=1, b=2), Batch(a=1)], "'b'"),
        ([Batch(a=1), Batch(a=1, b=2)], "'b'"),
        ([Batch(n={"a": 1, "b": 2}), Batch(n={"a": 1})], "b"),
        ([Batch(a=np.zeros(2)), Batch(a=np.zeros(3))], "a"),
        ([Batch(a=torch.zeros(2)), Batch(a=np.zeros(2), b=1)], "b"),
    ],
)
def test_rows_that_do_not_fit_together(rows, named):
    with pytest.raises(StructureError, match=named):
        collate(rows)


def test_they_are_named_in_a_worker_too():
    class Uneven(RowByRow):
        def __getitem__(self, index: int) -> Batch:
            return Batch(a=index) if index else Batch(a=index, b=1)

    with pytest.raises(StructureError, match="'b'"):
        loaded(Uneven(Batch(a=np.arange(4))), batch_size=4, num_workers=1)


def test_batches_that_have_no_rows():
    with pytest.raises(NoLengthError, match=r"field 'a\.b': a scalar \(f64\[\]\) has no rows"):
        BatchDataset(Batch(a={"b": 1.0}))
    with pytest.raises(StructureError, match="different lengths: b has 3, others 2"):
        BatchDataset(Batch(a=np.zeros(2), b=np.zeros(3)))


@pytest.mark.parametrize("value", [{"a": np.zeros(2)}, [1, 2], None])
def test_what_is_no_batch(value):
    with pytest.raises(LeafError, match=r"BatchDataset\(\) takes a Batch, got "):
        BatchDataset(value)


@pytest.mark.parametrize("value", [[3, 4], [np.zeros(2)], 3, None, "text"])
def test_rows_that_are_none(value):
    with pytest.raises(TypedBatchError, match="Batches (and|or) dicts"):
        collate(value)


def test_a_row_that_is_not_there():
    dataset = BatchDataset(rollout(3))
    with pytest.raises(RowIndexError, match="3"):
        dataset[3]
    with pytest.raises(RowIndexError, match="7"):
        dataset.__getitems__([0, 7])
    assert len(loaded(BatchDataset(Batch(a=np.zeros((0, 2)))), batch_size=2)) == 0
