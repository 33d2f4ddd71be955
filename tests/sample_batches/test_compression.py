"""Columns compressed as a whole or row by row: what comes back, what can be done meanwhile, what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.helpers import assert_array
from tests.strategies import DTYPES, arrays, tensors
from typedbatch import Batch, SampleBatch, cat, stack
from typedbatch.errors import LeafError, RowIndexError, StructureError, TypedBatchError
from typedbatch.sample_batches.compression import Compressed

BULK = pytest.mark.parametrize("bulk", [False, True], ids=["by row", "as a whole"])

COLUMNS = {
    "array": np.arange(6.0).reshape(3, 2),
    "one dimension": np.arange(3),
    "bools": np.array([True, False, True]),
    "not contiguous": np.arange(12.0).reshape(6, 2)[::2],
    "column major": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
    "long doubles": np.ones(3, np.longdouble),
    "datetimes": np.array(["2020-01-01T10:20:30", "1970-01-01", "2000-02-29"], "datetime64[s]"),
    "timedeltas": np.array([1, -2, 3], "timedelta64[ns]"),
    "no rows": np.zeros((0, 4), np.float32),
    "rows of no size": np.zeros((3, 0)),
    "tensor": torch.arange(6.0).reshape(3, 2),
    "bfloat16": torch.arange(6).reshape(3, 2).bfloat16(),
    "transposed tensor": torch.arange(6).reshape(2, 3).t(),
    "conjugate tensor": torch.tensor([1 + 1j, 2 - 3j]).conj(),
    "no rows of a tensor": torch.zeros((0, 2), dtype=torch.bfloat16),
    "nested": {"x": np.arange(3), "deep": {"y": torch.arange(6).reshape(3, 2), "z": np.arange(3) > 1}},
    "no rows of nested": {"x": np.zeros((0, 2)), "y": torch.zeros(0, dtype=torch.int16)},
}


def batch_of(column: Any) -> SampleBatch:
    return SampleBatch(obs=column)


@BULK
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_what_comes_back_is_what_was_there(column, bulk):
    batch = batch_of(column)
    before = batch.copy()
    rows = len(batch)
    batch.compress(bulk)
    assert len(batch) == rows
    assert batch.decompress_if_needed() == before
    assert type(batch.obs) is type(before.obs)


@BULK
@given(column=st.integers(0, 3).flatmap(lambda rows: arrays(rows, (*DTYPES, "datetime64[s]")) | tensors(rows)))
def test_any_numbers_come_back(bulk, column):
    batch = SampleBatch(obs=column, nested={"x": column})
    before = batch.copy()
    names = {"obs", "nested"}
    assert batch.compress(bulk, names).decompress_if_needed(names) == before


@BULK
def test_the_source_and_other_columns_are_left_alone(bulk):
    source = np.arange(6.0).reshape(3, 2)
    batch = SampleBatch(obs=source, actions=np.arange(3))
    actions = batch.actions
    batch.compress(bulk)
    assert batch.actions is actions
    assert_array(source, np.arange(6.0).reshape(3, 2))
    back = batch.decompress_if_needed().obs
    assert not np.shares_memory(back, source)
    back[0] = 9  # and it can be written


def test_columns_by_name():
    batch = SampleBatch(obs=np.zeros(3), actions=np.zeros(3))
    batch.compress(columns={"actions", "not there"})
    assert batch.actions.dtype == object
    assert batch.obs.dtype == float
    assert batch.decompress_if_needed().actions.dtype == object  # it is not an observation
    assert_array(batch.decompress_if_needed({"actions"}).actions, np.zeros(3))


@BULK
def test_compressing_twice_and_decompressing_twice_do_no_more(bulk):
    batch = SampleBatch(obs=np.arange(3))
    once = batch.compress(bulk).obs
    assert batch.compress(bulk).compress(not bulk).obs is once
    back = batch.decompress_if_needed().obs
    assert batch.decompress_if_needed().obs is back


def test_zeros_take_less_room():
    for bulk in (False, True):
        batch = SampleBatch(obs=np.zeros((4, 10_000)))
        assert batch.compress(bulk).size_bytes() < 320_000 / 50


@BULK
def test_a_compressed_batch_pickles_copies_compares_and_shows(bulk):
    plain = SampleBatch(obs=np.arange(6.0).reshape(3, 2), actions=[1, 2, 3])
    batch = plain.copy().compress(bulk)
    for back in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), batch.copy()):
        assert back == batch
        assert back.decompress_if_needed() == plain
    assert batch == plain.copy().compress(bulk)
    assert batch != plain
    assert "Compressed" in repr(batch)


def compressed() -> tuple[SampleBatch, SampleBatch]:
    plain = SampleBatch(obs={"x": np.arange(8.0).reshape(4, 2)}, new_obs=torch.arange(4), actions=np.arange(4))
    return plain, plain.copy().compress()


@pytest.mark.parametrize("index", [slice(1, 3), slice(None, None, -1), [3, 0], [True, False, True, False]], ids=repr)
def test_rows_are_taken_before_they_are_decompressed(index):
    plain, batch = compressed()
    assert batch[index].decompress_if_needed() == plain[index]


def test_a_batch_without_rows_is_left_as_it_is():
    plain, _ = compressed()
    assert plain[0:0].compress().decompress_if_needed() == plain[0:0]
    assert plain[0:0].compress(bulk=True).decompress_if_needed() == plain[0:0]


def test_none_of_the_compressed_rows_are_an_empty_array_of_objects():
    _, batch = compressed()
    assert (batch[0:0].decompress_if_needed().obs.dtype, len(batch[0:0])) == (object, 0)


def test_one_row_is_decompressed():
    plain, batch = compressed()
    row = batch[2].decompress_if_needed()
    assert row.obs.x.tolist() == plain[2].obs.x.tolist()
    assert int(row.new_obs) == 2


def test_cat_stack_split_and_shuffle_of_compressed_rows():
    plain, batch = compressed()
    assert cat([batch, batch[:1]]).decompress_if_needed() == cat([plain, plain[:1]])
    assert batch.concat(batch).decompress_if_needed() == plain.concat(plain)
    assert stack(list(batch)).decompress_if_needed() == plain
    assert cat(list(batch.split(3, shuffle=False))).decompress_if_needed() == plain
    assert batch.copy().shuffle(rng=0).decompress_if_needed() == plain.copy().shuffle(rng=0)


def test_rows_of_sequences():
    batch = SampleBatch(obs=np.arange(3), seq_lens=[1, 2]).compress()
    assert batch[1:].decompress_if_needed().obs.tolist() == [1, 2]
    assert batch[[2]].decompress_if_needed().obs.tolist() == [2]


def test_zeros_among_compressed_rows_are_not_left_compressed_in_silence():
    padded = SampleBatch(obs=np.arange(1, 4), seq_lens=[1, 2]).compress()
    early = SampleBatch(obs=np.arange(1, 4)).compress()
    calls = [(lambda: padded.right_zero_pad(2), [1, 0, 2, 3]), (lambda: early.slice(-1, 2), [0, 1, 2])]
    for call, expected in calls:
        try:
            batch = call().decompress_if_needed()
        except TypedBatchError:
            continue
        assert batch.obs.tolist() == expected


ROWS = {
    "int": lambda b: b[0], "slice": lambda b: b[1:], "mask": lambda b: b[[True, False, True]], "iteration": list,
    "rows": lambda b: list(b.rows()), "slice()": lambda b: b.slice(0, 2), "split": lambda b: list(b.split(2)),
    "timeslices": lambda b: b.timeslices(2), "shuffle": lambda b: b.shuffle(),
    "episodes": lambda b: b.split_by_episode("actions"), "write": lambda b: b.set_rows(0, {"actions": 1}),
    "empty_": lambda b: b.empty_(0),
}  # fmt: skip


@pytest.mark.parametrize("use", ROWS.values(), ids=ROWS)
def test_no_rows_are_taken_of_what_is_compressed_as_a_whole(use):
    batch = SampleBatch(obs=np.arange(3), actions=[1, 2, 3]).compress(bulk=True)
    with pytest.raises(RowIndexError, match=r"decompress_if_needed\(\['obs'\]\)"):
        use(batch)
    assert batch.decompress_if_needed() == SampleBatch(obs=np.arange(3), actions=[1, 2, 3])


def test_padding_says_the_same():
    batch = SampleBatch(obs=np.arange(3), seq_lens=[1, 2]).compress(bulk=True)
    with pytest.raises(RowIndexError, match="compressed as a whole"):
        batch.right_zero_pad(2)


def test_wholes_do_not_join():
    batch = SampleBatch(obs=np.arange(3)).compress(bulk=True)
    with pytest.raises(StructureError, match="'obs'"):
        batch.concat(batch)


def test_wholes_count_their_rows():
    batch = SampleBatch(obs=np.arange(3), new_obs=np.arange(3)).compress(bulk=True)
    assert len(batch) == 3
    batch.actions = [1, 2]
    with pytest.raises(StructureError, match=r"obs: 3.*the others: 2"):
        len(batch)


REFUSED = {
    "objects": np.array([1, "a", None], object), "text": np.array(["a", "b"]), "None": None, "reserved": Batch(),
    "a scalar": 3.0, "a distribution": torch.distributions.Normal(torch.zeros(3), 1.0),
    "objects inside": {"x": np.arange(2), "y": np.array([1, None], object)},
    "reserved inside": {"x": np.arange(2), "y": Batch()}, "records with objects": np.zeros(2, [("x", object)]),
    "records": np.array([(1, 2.0), (3, 4.0)], [("x", "i4"), ("y", "f8")]),
    "masked": np.ma.masked_array([1, 2], [True, False]), "sparse": torch.eye(3).to_sparse(),
    "meta": torch.ones(3, device="meta"),
}  # fmt: skip


@BULK
@pytest.mark.parametrize("column", REFUSED.values(), ids=REFUSED)
def test_what_is_not_numbers_is_refused_and_nothing_is_compressed(column, bulk):
    batch = SampleBatch(obs=np.arange(3), new_obs=column)
    before = batch.obs
    with pytest.raises(LeafError, match=r"'new_obs(\.y)?'.*cannot be compressed"):
        batch.compress(bulk)
    assert batch.obs is before
    assert type(batch.new_obs) is type(SampleBatch(new_obs=column).new_obs)


def test_nested_columns_of_different_lengths_are_refused():
    batch = SampleBatch(obs={"x": np.arange(3), "y": np.arange(2)})
    with pytest.raises(TypedBatchError, match="'obs'"):
        batch.compress()


def test_masked_arrays_lose_no_mask_in_silence():
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    batch = SampleBatch(obs=masked)
    try:
        back = batch.compress(bulk=True).decompress_if_needed().obs
    except LeafError:
        return
    assert back.tolist() == [1, None, 3]


def test_one_name_is_not_taken_for_its_letters():
    batch = SampleBatch(obs=np.arange(3), o=np.arange(3))
    try:
        batch.compress(columns="obs")
    except TypedBatchError:
        return
    assert batch.o.dtype != object
    assert batch.obs.dtype == object


def test_damaged_bytes_are_an_error_of_this_library():
    batch = SampleBatch(obs=np.arange(3)).compress(bulk=True)
    batch.obs = Compressed(batch.obs.data[:-6], batch.obs.forms, 3)
    with pytest.raises(TypedBatchError, match="'obs'"):
        batch.decompress_if_needed()
