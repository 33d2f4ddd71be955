"""Data sets and loaders of torch, the collation of tokens, and processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch.distributions import Normal
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, WeightedRandomSampler

from tests.strategies import batches
from typedbatch import Batch, BatchRecord, Ragged, RolloutBatch, objects
from typedbatch._core.lengths import equal_rows
from typedbatch.bridges.collate_tokens import CollateTokens
from typedbatch.bridges.torch_data import BatchDataset, collate
from typedbatch.bridges.torch_distributed import all_gather, broadcast
from typedbatch.errors import (
    FieldNameError,
    LeafError,
    MissingFieldError,
    NoLengthError,
    RowIndexError,
    SchemaError,
    SettingError,
    SizeError,
    StructureError,
    TypedBatchError,
)
from typedbatch.posttraining import RaggedRollouts, Rollouts


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


ROWS = [
    {"prompt_ids": [5, 6], "response_ids": [7], "loss_mask": [1], "uid": "a", "reward": 0.5, "turns": [1]},
    {"prompt_ids": [5], "response_ids": [8, 9], "loss_mask": [1, 0], "uid": "b", "reward": 1, "turns": [1, 2]},
    {"prompt_ids": [4], "response_ids": [], "loss_mask": [], "uid": "b", "reward": 0, "turns": []},
]
SIDES: Any = {"left": ["prompt_ids"], "right": ["response_ids", "loss_mask"]}


def test_padded_to_a_record():
    batch = CollateTokens(Rollouts, **SIDES, pad_token_id=99)(ROWS)
    assert type(batch) is Rollouts
    assert batch.prompt_ids.tolist() == [[5, 6], [99, 5], [99, 4]]
    assert batch.prompt_mask.tolist() == [[True, True], [False, True], [False, True]]
    assert batch.response_ids.tolist() == [[7, 99], [8, 9], [99, 99]]
    assert batch.response_mask.tolist() == [[True, False], [True, True], [False, False]]
    assert batch.loss_mask.tolist() == [[True, False], [True, False], [False, False]]
    assert batch.uid.tolist() == ["a", "b", "b"]
    assert batch["reward"].dtype == torch.float32
    assert batch["turns"].tolist() == [[1], [1, 2], []]
    assert batch.rollout_logp is None


def test_a_list_of_numbers_is_a_tensor_where_one_is_declared():
    class Scored(Rollouts):
        scores: Float[torch.Tensor, "N 2"]

    rows = [{**row, "scores": [0.5, 1.0]} for row in ROWS]
    batch = CollateTokens(Scored, **SIDES, pad_token_id=0)(rows)
    assert batch.scores.tolist() == [[0.5, 1.0]] * 3


def test_ragged_to_a_record():
    rows = [{"input_ids": [1, 2], "response_mask": [0, 1]}, {"input_ids": [3], "response_mask": [1]}]
    batch = CollateTokens(RaggedRollouts, ragged={"tokens": ["input_ids", "response_mask"]})(rows)
    assert type(batch) is RaggedRollouts
    assert batch.tokens.lengths.tolist() == [2, 1]
    assert batch.tokens.values.input_ids.tolist() == [1, 2, 3]
    assert batch.tokens.values.response_mask.tolist() == [False, True, True]


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_lists_arrays_and_tensors(make):
    rows = [{"input_ids": make([1, 2, 3]), "labels": make([1, 2, 3])}, {"input_ids": make([4]), "labels": make([4])}]
    collate = CollateTokens(
        Batch, right=["input_ids", "labels"], pad_token_id=0, padding={"labels": -100}, multiple_of=4
    )
    batch: Any = collate(rows)
    assert batch.input_ids.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert batch.labels.tolist() == [[1, 2, 3, -100], [4, -100, -100, -100]]
    assert batch.attention_mask.tolist() == [[True, True, True, False], [True, False, False, False]]
    assert batch.labels.dtype == torch.int64


def test_a_mask_that_the_rows_have_stays():
    rows = [{"input_ids": [1, 2], "attention_mask": [1, 0]}]
    batch: Any = CollateTokens(Batch, right=["input_ids", "attention_mask"], pad_token_id=0)(rows)
    assert batch.attention_mask.tolist() == [[True, False]]


def test_without_any_token():
    batch: Any = CollateTokens(Batch, right=["input_ids"], pad_token_id=0)([{"input_ids": []}, {"input_ids": []}])
    assert batch.input_ids.shape == (2, 0)
    assert batch.input_ids.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 1])
def test_in_a_loader(workers):
    collate = CollateTokens(Rollouts, **SIDES, pad_token_id=99)
    batches = list(DataLoader(ROWS, batch_size=2, collate_fn=collate, num_workers=workers))
    assert [type(batch) for batch in batches] == [Rollouts, Rollouts]
    assert [batch.uid.tolist() for batch in batches] == [["a", "b"], ["b"]]
    assert pickle.loads(pickle.dumps(collate))(ROWS) == collate(ROWS)


class Sampling(TypedDict):
    temperature: float


class Sampled(Rollouts):
    meta: Sampling


def test_meta_comes_with_the_call():
    collate = CollateTokens(Sampled, **SIDES, pad_token_id=99)
    rows = [{name: value for name, value in row.items() if name != "turns"} for row in ROWS]
    assert collate(rows, meta={"temperature": 0.5}).meta == {"temperature": 0.5}
    with pytest.raises(SchemaError, match=r"meta\.temperature"):
        collate(rows, meta={})
    with pytest.raises(SchemaError, match="meta"):
        collate(rows)
    assert CollateTokens(Batch, right=["x"])([{"x": [1]}], meta={"step": 3}).meta == {"step": 3}


def test_what_the_record_does_not_declare():
    with pytest.raises(SchemaError, match="loss_mask"):
        CollateTokens(Rollouts, left=["prompt_ids"], right=["response_ids"], pad_token_id=0)(
            [{"prompt_ids": [1], "response_ids": [2], "uid": "a"}]
        )


def test_fields_that_may_be_none_have_the_declared_tokens_too():
    collate = CollateTokens(Rollouts, right=["response_ids", "loss_mask", "rollout_logp"], pad_token_id=0)
    row = {"uid": "p", "prompt_ids": [1], "response_ids": [1, 2], "loss_mask": [1, 1], "rollout_logp": [-0.5]}
    with pytest.raises(StructureError, match="row 0: rollout_logp has 1 tokens, but response_ids has 2 tokens"):
        collate([row])


def test_fields_of_the_same_tokens_have_as_many_in_each_row():
    rows = [*ROWS, {**ROWS[0], "response_ids": [1, 2, 3, 4], "loss_mask": [1, 1]}]
    with pytest.raises(StructureError, match="row 3: loss_mask has 2 tokens, but response_ids has 4 tokens"):
        CollateTokens(Rollouts, **SIDES, pad_token_id=99)(rows)
    with pytest.raises(StructureError, match="row 0: loss_mask has a number, but response_ids has 1 tokens"):
        CollateTokens(Rollouts, **SIDES, pad_token_id=99)([{**ROWS[0], "loss_mask": 1}])
    with pytest.raises(StructureError, match="row 3: loss_mask has 2 tokens, but response_ids has 4 tokens"):
        CollateTokens(Batch, **SIDES, pad_token_id=99)(rows)
    masked = CollateTokens(Batch, right=["input_ids", "attention_mask", "labels"], pad_token_id=0)
    with pytest.raises(StructureError, match="row 1: attention_mask has 2 tokens, but input_ids has 1 tokens"):
        masked(
            [
                {"input_ids": [1], "attention_mask": [1], "labels": []},
                {"input_ids": [1], "attention_mask": [1, 1]} | {"labels": [1]},
            ]
        )
    with pytest.raises(
        SettingError,
        match="'response_ids' and 'loss_mask' have the same tokens, so they must be padded on the same side",
    ):
        CollateTokens(Rollouts, left=["prompt_ids", "loss_mask"], right=["response_ids"], pad_token_id=0)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"left": ["prompt_ids"]}, SettingError, "'prompt_ids' is padded; pass pad_token_id="),
        ({"left": ["a"], "right": ["a"]}, SettingError, "'a' is named twice"),
        ({"left": ["a"], "ragged": {"t": ["a"]}}, SettingError, "'a' is named twice"),
        ({"padding": {"labels": 0}}, SettingError, "padding= names 'labels'"),
        ({"multiple_of": 0}, SizeError, "multiple_of"),
    ],
)
def test_settings(options, error, said):
    with pytest.raises(error, match=said):
        CollateTokens(Batch, **options)


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ([{"a": [1]}, {}], StructureError, "'a': row 1 lacks this key"),
        ([{"b": [1]}], MissingFieldError, "a"),
        ([{"a": ["text"]}], LeafError, "'a': tokens must be a list of numbers"),
        ([{"a": 3}], LeafError, "'a'"),
        ([[1]], LeafError, "dicts or Batches"),
        ([{"a": [1], "t": 1, "b": [1]}], FieldNameError, "'t'"),
        ([{"a": [1], "b": [1], "c_mask": [1, 1]}], StructureError, "t"),
        ([{"a": [1], "b": [1], "c_mask": [2]}], StructureError, "'t.c_mask'.*0 and 1"),
    ],
)
def test_rows_that_are_refused(rows, error, said):
    collate = CollateTokens(Batch, right=["a"], ragged={"t": ["b", "c_mask"]})
    with pytest.raises(error, match=said):
        collate(rows)


class Scored(BatchRecord):
    ids: torch.Tensor
    uid: np.ndarray[Any, Any]


def everything(rows: int, first: int = 0) -> Batch:
    numbers = torch.arange(first, first + rows)
    return Batch(
        ids=numbers, wide=numbers[:, None].expand(rows, 3).to(torch.float32).requires_grad_(),
        half=numbers.to(torch.bfloat16), mask=numbers % 2 == 0, turned=torch.stack([numbers, -numbers]).T,
        array=np.arange(first, first + rows), backwards=np.arange(first, first + rows)[::-1],
        complex=np.arange(rows) * 1j, long=np.arange(rows).astype(np.longdouble), at=np.arange(rows).astype("M8[s]"),
        uid=np.array([f"row {i}" for i in range(first, first + rows)], object),
        n={"none": None, "x": numbers * 2.0, "reserved": Batch()}, dist=Normal(numbers * 1.0, torch.ones(rows)),
    )  # fmt: skip


def check_broadcast(rank: int) -> None:
    batch = everything(3)
    found = broadcast(batch if rank == 1 else None, src=1)
    assert found == everything(3)
    assert (found is batch) == (rank == 1)
    assert rank == 1 or not found.wide.requires_grad
    assert type(found.array) is np.ndarray
    assert found.half.dtype == torch.bfloat16
    record = Scored(ids=torch.arange(2), uid=np.array(["a", {"b": 1}], object))
    assert type(broadcast(record if rank == 0 else None)) is Scored
    assert broadcast(Batch() if rank == 0 else None) == Batch()
    assert broadcast(Batch(a=torch.zeros(0, 2)) if rank == 0 else None).a.shape == (0, 2)
    assert broadcast(Batch(step=5) if rank == 0 else None).step == 5


def check_all_gather(rank: int) -> None:
    found = all_gather(everything(1 + rank * 2, first=rank))
    expected = Batch.cat([everything(1), everything(3, first=1)])
    assert found == expected
    part = Scored(ids=torch.arange(rank), uid=np.array(["a"] * rank, object))
    assert type(all_gather(part)) is Scored
    assert all_gather(part).ids.tolist() == [0]
    assert len(all_gather(Batch(a=torch.zeros(0)))) == 0
    with pytest.raises(StructureError, match="'a'"):
        all_gather(Batch(a=torch.zeros(1)) if rank else Batch(b=torch.zeros(1)))
    with pytest.raises(StructureError, match="'a'"):
        all_gather(Batch(a=torch.zeros(1) if rank else np.zeros(1)))


def sequences(rank: int) -> Batch:
    """Return one sequence in the first process, and in the second three, of which one is empty."""
    lengths = [[2], [1, 0, 3]][rank]
    ids = 10 * rank + torch.arange(sum(lengths))
    tokens = Ragged({"ids": ids, "inner": {"logp": -ids[:, None].to(torch.bfloat16), "none": None}}, lengths)
    images = Ragged({"pixels": np.ones((sum(lengths), 2), np.float32), "file": objects(["a"] * sum(lengths))}, lengths)
    batch = Batch(tokens=tokens, n={"images": images}, reward=torch.ones(len(lengths)))
    batch.meta["step"] = 5 + rank
    return batch


def check_sequences(rank: int) -> None:
    for sender in (0, 1):
        found = broadcast(sequences(rank) if rank == sender else None, src=sender)
        assert found == sequences(sender)
        assert found.meta == {"step": 5 + sender}
        assert [type(found.tokens), type(found.n.images)] == [Ragged, Ragged]
        assert type(found.n.images.values.pixels) is np.ndarray
        assert not found.tokens.sizes.flags.writeable
    assert broadcast(sequences(1)[2] if rank == 1 else None, src=1) == sequences(1)[2]  # a row, of one sequence
    together = all_gather(sequences(rank), meta={"step": max})
    assert together == Batch.cat([sequences(0), sequences(1)], meta={"step": max})
    assert together.meta == {"step": 6}
    assert all_gather(sequences(rank), meta="first").meta == {"step": 5}
    with pytest.raises(StructureError, match=r"meta.step.*meta='first' takes the first"):
        all_gather(sequences(rank))
    with pytest.raises(StructureError, match="tokens"):
        all_gather(Batch(tokens=Ragged({f"ids{rank}": torch.ones(1)}, [1])))


def check_widths(rank: int) -> None:
    own = Batch(response_ids=torch.full((1 + rank, 2 + rank), 5), scores=np.ones((1 + rank, 2 + rank)))
    with pytest.raises(StructureError, match="it is 2 wide in batch 0 and 3 wide in batch 1; widths='pad' pads it"):
        all_gather(own)
    with pytest.raises(SettingError, match="pass pad_token_id="):
        all_gather(own, widths="pad")
    together = all_gather(own, widths="pad", pad_token_id=9)
    assert together.response_ids.tolist() == [[5, 5, 9], [5, 5, 5], [5, 5, 5]]
    assert together.scores.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]


def in_a_group(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        for check in (check_broadcast, check_all_gather, check_sequences, check_widths):
            check(rank)
            dist.barrier()
    finally:
        dist.destroy_process_group()


def test_in_two_processes(tmp_path: Path):
    mp.start_processes(in_a_group, args=(str(tmp_path / "store"),), nprocs=2, start_method="forkserver")


def test_alone_a_process_has_what_it_gave(tmp_path: Path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert all_gather(everything(3)) == everything(3)
        with pytest.raises(LeafError, match="takes a Batch, got dict"):
            all_gather({"a": [1]})  # type: ignore[type-var]  # what is wrong here
        with pytest.raises(LeafError, match="takes a Batch, got None"):
            broadcast(None)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("call", [broadcast, all_gather])
def test_without_a_group_it_says_what_to_call(call):
    with pytest.raises(SettingError, match=r"not initialized; call torch.distributed.init_process_group\(\) first"):
        call(Batch(a=torch.zeros(1)))
