"""Streams over a real queue on a local Ray: stages, waiting, groups, meta, and workers that die."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import numpy as np
import pytest
import ray
import torch
from torch.distributions import Normal

from tests.with_transfer_queue.workers import (
    GROUP,
    STAGES,
    Consumer,
    Judge,
    Producer,
    actors,
    make_stream,
    prompts,
    sampled,
)
from typedbatch import Batch, BatchRecord, Ragged, extend, objects
from typedbatch.bridges.transfer_queue import KEY, Stream, open_queue
from typedbatch.bridges.transfer_queue._queue import RowSampler
from typedbatch.errors import (
    LeafError,
    MissingFieldError,
    SchemaError,
    SettingError,
    SizeError,
    StreamTimeoutError,
    StructureError,
)
from typedbatch.posttraining import PolicyLossProtocol, Prompts, Rollouts, Scored, SequenceProtocol

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Ray and TransferQueue


@pytest.fixture(scope="module")
def queue():
    with open_queue():
        yield


@pytest.fixture
def stream(queue) -> Stream:
    return make_stream(uuid.uuid4().hex)


def test_stages_add_their_columns(stream):
    batch = stream.put(prompts(2))
    assert type(batch) is Prompts
    read = stream.get(Prompts, 8, task="sample", timeout=20)
    assert type(read) is Prompts
    assert read == batch
    assert read.meta == {"step": 3}
    assert sorted(read[KEY]) == sorted(batch[KEY])
    stream.put(sampled(read, 2))
    rollouts = stream.get(SequenceProtocol, 8, task="score", timeout=20)
    assert rollouts.response_ids.tolist() == [[row, row] for row in (0, 1) for _ in range(GROUP)]
    assert rollouts.response_mask.dtype == torch.bool
    rows = stream.get(Rollouts, 8, task="other", timeout=20)
    scored = stream.put(extend(rows, Scored, rewards=torch.arange(8.0)))
    assert stream.get(Scored, 8, task="update", timeout=20) == scored


def test_rows_that_lack_a_column_are_waited_for(stream):
    batch = stream.put(prompts(1))
    with pytest.raises(
        StreamTimeoutError, match=r"has not 4 rows with .*response_ids.* within 0.1 s; 4 rows are known"
    ):
        stream.get(Rollouts, 4, task="score", timeout=0.1)
    rollouts = sampled(batch, 2)
    stream.put(rollouts[:3])
    with pytest.raises(StreamTimeoutError):
        stream.get(Rollouts, 4, task="score", timeout=0.1)
    assert len(stream.get(Rollouts, 3, task="score", timeout=20)) == 3
    stream.put(rollouts[3:])
    assert stream.get(Rollouts, 1, task="score", timeout=20)[KEY].tolist() == [batch[KEY][3]]


def test_each_task_reads_each_row_once(stream):
    stream.put(prompts(2))
    first, second = (stream.get(Prompts, 4, task="a", timeout=20) for _ in range(2))
    assert not {*first[KEY]} & {*second[KEY]}
    with pytest.raises(StreamTimeoutError):
        stream.get(Prompts, 1, task="a", timeout=0.05)
    assert len(stream.get(Prompts, 8, task="b", timeout=20)) == 8


def test_widths_of_several_workers_are_joined(stream):
    batch = stream.put(prompts(2))
    for rows, width in ((slice(0, 3), 2), (slice(3, 6), 4), (slice(6, 8), 1)):
        stream.put(sampled(batch[rows], width))
    rollouts = stream.get(Rollouts, 8, task="score", timeout=20)
    assert rollouts.response_ids.shape == (8, 4)
    assert rollouts.response_mask.sum(1).tolist() == [2, 2, 2, 4, 4, 4, 1, 1]
    assert (rollouts.response_ids[~rollouts.response_mask] == 99).all()


class Turned(Prompts):
    turns: torch.Tensor


def test_sides_of_own_fields_are_those_of_the_stream(queue):
    stream = Stream(uuid.uuid4().hex, [Turned], widths={"turns": "right"}, pad_token_id=99)
    for width in (2, 3):
        stream.put(Turned(**prompts(1, width=width), turns=torch.ones(GROUP, width)))
    read = stream.get(Turned, 2 * GROUP, task="a", timeout=20)
    assert read.turns.sum(1).tolist() == [2.0] * GROUP + [3.0] * GROUP
    assert (read.turns[:GROUP, 2] == 0).all()


def test_optional_fields_come_if_all_rows_have_them(stream):
    batch = stream.put(prompts(1))
    rollouts: Any = sampled(batch, 2)
    rollouts.policy_step = torch.full((GROUP,), 7)
    stream.put(rollouts)
    assert stream.get(Rollouts, GROUP, task="a", timeout=20).policy_step.tolist() == [7] * GROUP
    assert stream.get(Rollouts, GROUP, task="b", timeout=20).truncated is None


def test_groups_come_whole(stream):
    batch = stream.put(prompts(2))
    rollouts = sampled(batch, 1)
    stream.put(rollouts[[0, 1, 2, 4, 5, 6, 7]])
    read = stream.get(Rollouts, GROUP, task="update", groups=True, timeout=20)
    assert read.uid.tolist() == ["p1"] * GROUP
    with pytest.raises(StreamTimeoutError):
        stream.get(Rollouts, GROUP, task="update", groups=True, timeout=0.1)
    stream.put(rollouts[3:4])
    assert stream.get(Rollouts, GROUP, task="update", groups=True, timeout=20).uid.tolist() == ["p0"] * GROUP


def test_the_meta_is_that_of_the_rows(stream):
    old, new = prompts(1), prompts(1, first=1)
    new.meta["step"] = 4
    stream.put(old)
    stream.put(new)
    fresh = stream.get(Prompts, GROUP, task="fresh", at_least={"step": 4}, timeout=20)
    assert fresh.uid.tolist() == ["p1"] * GROUP
    with pytest.raises(StreamTimeoutError):
        stream.get(Prompts, 1, task="fresh", at_least={"step": 4}, timeout=0.1)
    assert stream.get(Prompts, 8, task="max", meta={"step": max}, timeout=20).meta == {"step": 4}
    with pytest.raises(StructureError, match=r"meta.step.*meta='first' takes the first"):
        stream.get(Prompts, 8, task="error", timeout=20)
    again = stream.get(Prompts, 8, task="error", meta="first", timeout=20)  # Nothing is lost by an error.
    assert again.meta == {"step": 3}
    with pytest.raises(StreamTimeoutError):
        stream.get(Prompts, 8, task="error", timeout=0.1)


def test_rows_are_removed(stream):
    batch = stream.put(prompts(2))
    stream.clear(batch[:5])
    assert stream.get(Prompts, 3, task="a", timeout=20)[KEY].tolist() == batch[KEY][5:].tolist()
    with pytest.raises(MissingFieldError, match=KEY):
        stream.clear(prompts(1))


def test_what_is_not_of_the_stream_is_refused(stream):
    with pytest.raises(
        SettingError, match="a Batch is of no stage; the stream has Prompts, Rollouts, Scored, Answered"
    ):
        stream.put(Batch(prompts(1)))
    with pytest.raises(SettingError, match="the stream has no stage Batch; it has Prompts"):
        stream.put(prompts(1), stage=Batch)
    with pytest.raises(SchemaError, match=r"batch\.response_ids +missing"):
        stream.put(Batch(prompts(1)), stage=Rollouts)
    assert len(stream.put(Batch(prompts(1)), stage=Prompts)[KEY]) == GROUP
    with pytest.raises(SizeError, match="at least one row"):
        stream.put(prompts(1)[:0])
    batch = stream.put(prompts(1))
    with pytest.raises(StructureError, match="occurs twice"):
        stream.put(sampled(batch[[0, 0]], 1))
    with pytest.raises(SettingError, match="no stage of the stream has 'old_logp'; it would be waited for for ever"):
        stream.get(PolicyLossProtocol, 1, task="a")
    with pytest.raises(SizeError, match="n is 1 or more"):
        stream.get(Prompts, 0, task="a")
    wrong = prompts(1)
    wrong.meta["when"] = {1, 2}
    with pytest.raises(LeafError, match=r"meta\.when.*tags are text, numbers"):
        stream.put(wrong)


def test_streams_that_cannot_be_are_refused(queue):
    with pytest.raises(SettingError, match="the stage Prompts lacks"):
        Stream("a", [Rollouts, Prompts])
    with pytest.raises(SettingError, match="at least one stage"):
        Stream("a", [])
    with pytest.raises(SettingError, match="group= names 'uidd', which Prompts does not declare"):
        Stream("a", STAGES, group="uidd")
    with pytest.raises(SettingError, match="Ray has a queue already"), open_queue():
        pass
    with pytest.raises(SettingError, match="storage_units must be at least 1"), open_queue(storage_units=0):
        pass


class Kinds(BatchRecord):
    value: Any


class Tensors(BatchRecord):
    value: torch.Tensor


class Arrays(BatchRecord):
    value: np.ndarray[Any, Any]


class Objects(BatchRecord):
    value: np.ndarray[Any, np.dtype[np.object_]]


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(3), torch.rand(3, 2), torch.rand(3, 2, 2).to(torch.bfloat16), torch.tensor([True, False, True]),
        torch.zeros(3, 0), np.arange(3.0), np.ones((3, 2), np.float32), objects(["a", None, {"b": [1, 2.5]}]),
        torch.arange(3, dtype=torch.uint8), torch.rand(3, 1, requires_grad=True),
    ],
    ids=lambda value: str(getattr(value, "dtype", "objects")),
)  # fmt: skip
def test_kinds_that_come_back(queue, value):
    record = Tensors if isinstance(value, torch.Tensor) else Objects if value.dtype == object else Arrays
    stream = Stream(uuid.uuid4().hex, [record])
    stream.put(record(value=value))
    back = stream.get(record, 3, task="a", timeout=20).value
    assert type(back) is type(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        assert back.tolist() == value.tolist()
    else:
        assert torch.equal(torch.as_tensor(back), torch.as_tensor(value))
        assert str(torch.as_tensor(back).dtype) == str(torch.as_tensor(value).dtype)


@pytest.mark.parametrize(
    "value",
    [
        Batch(x=np.ones(3)), Ragged({"x": np.ones(3)}, [1, 1, 1]), Normal(torch.zeros(3), torch.ones(3)),
        np.array(["2026-01-01"] * 3, "M8[D]"), objects([(1, 2)] * 3), objects([()] * 3), objects([{1: 2}] * 3), torch.eye(3).to_sparse(),
        np.ma.array([1, 2, 3], mask=[True, False, False]),
    ],
    ids=["nested", "ragged", "distribution", "dates", "tuples", "empty tuples", "keys", "sparse", "masked"],
)  # fmt: skip
def test_kinds_that_would_come_back_as_others_are_refused(queue, value):
    stream = Stream(uuid.uuid4().hex, [Kinds])
    with pytest.raises((LeafError, StructureError), match="'value': a queue takes"):
        stream.put(Kinds(value=value))


def test_sequences_end_to_end_are_refused_with_the_way(queue):
    way = r"got Ragged\[2 x 1..2\]; put its .padded\(\), or to_layout\(batch, 'split', pad_token_id=...\)"
    with pytest.raises(LeafError, match=way):
        Stream(uuid.uuid4().hex, [Kinds]).put(Kinds(value=Ragged({"x": np.ones(3)}, [1, 2])))


def test_two_producers_and_two_consumers(queue):
    name = uuid.uuid4().hex
    producers, (judge,), consumers = (actors(cls, name, n) for cls, n in ((Producer, 2), (Judge, 1), (Consumer, 2)))
    total = 8 * GROUP
    read = [one.consume.remote(total) for one in consumers]
    judged = judge.judge.remote(total)
    made = [one.produce.remote(4 * rank, 4, 2 + rank) for rank, one in enumerate(producers)]
    assert ray.get(made) == [4 * GROUP] * 2
    assert ray.get(judged) == total
    batches = [batch for one in ray.get(read) for batch in one]
    keys = [key for _, of_batch, _ in batches for key in of_batch]
    assert len(keys) == len({*keys}) == total
    for uid, _, rewards in batches:
        assert {*Counter(uid).values()} == {GROUP}
        assert rewards == [float(key[1:]) for key in uid]


def test_a_producer_that_dies_loses_only_what_it_had_not_put(queue):
    name = uuid.uuid4().hex
    (producer,) = actors(Producer, name, 1)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(producer.die_after.remote(0, 2, 5))
    stream = make_stream(name)
    rollouts = stream.get(Rollouts, 5, task="a", timeout=20)
    assert rollouts.uid.tolist() == ["p0"] * GROUP + ["p1"]
    with pytest.raises(StreamTimeoutError, match="8 rows are known"):
        stream.get(Rollouts, 1, task="a", timeout=0.1)
    left = stream.get(Prompts, 8, task="again", timeout=20)
    missing = left[np.array([key not in {*rollouts[KEY]} for key in left[KEY]])]
    stream.put(sampled(missing, 2))
    assert len(stream.get(Rollouts, 3, task="a", timeout=20)) == 3


class Partition:
    def __init__(self, tags: dict[int, dict[str, Any]]) -> None:
        self.tags = tags

    def get_custom_meta(self, rows: list[int]) -> dict[int, dict[str, Any]]:
        return {row: self.tags[row] for row in rows if row in self.tags}


def test_a_sampler_takes_whole_groups_that_fit():
    sizes = {"a": 2, "b": 3, "c": 2}
    tags = {row: {"group": group, "size": sizes[group], "meta": {"step": row}} for row, group in enumerate("aabbbcc")}
    sampler, partition = RowSampler(), Partition(tags)
    assert sampler.sample([0, 1, 2, 3, 4, 5, 6], 4, partition=partition, groups=True)[0] == [0, 1, 5, 6]
    assert sampler.sample([0, 2, 3, 4], 3, partition=partition, groups=True)[0] == [2, 3, 4]
    assert sampler.sample([0, 2, 3], 2, partition=partition, groups=True) == ([], [])
    assert sampler.sample([0, 1, 2], 2, partition=partition, at_least={"step": 1})[0] == [1, 2]
    assert sampler.sample([0, 1, 9], 2, partition=partition, at_least={"step": 1}) == ([], [])
    assert sampler.sample([4, 5], 1)[0] == [4]
