"""Batches as verl's DataProto, and back: with verl itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.protocol import DataProto

from typedbatch import Batch, Ragged, objects, validate
from typedbatch.bridges.verl import from_dataproto, to_dataproto
from typedbatch.errors import FieldNameError, LeafError, NoLengthError, SchemaError, StructureError
from typedbatch.posttraining import RaggedRollouts, Ready, SequenceProtocol, to_layout
from typedbatch.testing import example


def right(lengths: list[int]) -> torch.Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def dataproto(prompts: list[int] = [1, 3], responses: list[int] = [2, 3], **more: torch.Tensor) -> DataProto:
    """Return the batch that verl passes to an actor, in verl's dtypes."""
    mask, prompt_mask = right(responses), right(prompts).flip(1)
    n = torch.arange(mask.numel()).reshape(mask.shape)
    attention_mask = torch.cat([prompt_mask, mask], 1)
    tensors = {
        "prompts": prompt_mask * 7,
        "responses": mask * (n + 1),
        "input_ids": torch.cat([prompt_mask * 7, mask * (n + 1)], 1),
        "attention_mask": attention_mask,
        "position_ids": torch.clip(torch.cumsum(attention_mask, -1) - 1, min=0),
        "response_mask": mask,
        "old_log_probs": -n / 7,
        "ref_log_prob": -n / 8,
        "rollout_log_probs": -n / 9,
        "token_level_scores": n / 2,
        "token_level_rewards": n / 3,
        "advantages": n / 4,
        **more,
    }
    columns = {
        "uid": np.array([f"p{i}" for i in range(len(mask))], object),
        "extra_info": objects([{"index": i} for i in range(len(mask))]),
        "__num_turns__": np.arange(len(mask), dtype=np.int32),
    }
    return DataProto.from_dict(tensors, columns, {"temperature": 0.5, "global_steps": 3})


def assert_same(one: DataProto, other: DataProto) -> None:
    assert set(one.batch.keys()) == set(other.batch.keys())
    for name in one.batch.keys():
        assert torch.equal(one.batch[name], other.batch[name]), name
        assert one.batch[name].dtype == other.batch[name].dtype, name
    assert one.non_tensor_batch.keys() == other.non_tensor_batch.keys()
    for name, column in one.non_tensor_batch.items():
        assert column.dtype == other.non_tensor_batch[name].dtype
        assert column.tolist() == other.non_tensor_batch[name].tolist()
    assert one.meta_info == other.meta_info


def test_names_masks_columns_and_meta():
    data = dataproto()
    batch: Any = from_dataproto(data)
    assert set(batch.keys()) == {
        "prompt_ids", "prompt_mask", "response_ids", "response_mask", "loss_mask", "old_logp", "ref_logp",
        "rollout_logp", "token_level_scores", "token_rewards", "advantages", "rewards", "uid", "extra_info",
        "__num_turns__",
    }  # fmt: skip
    assert batch.prompt_mask.tolist() == [[False, False, True], [True, True, True]]
    assert batch.response_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.loss_mask.dtype == torch.bool
    assert batch.rewards.tolist() == pytest.approx(data.batch["token_level_rewards"].sum(-1).tolist())
    assert batch.extra_info.tolist() == [{"index": 0}, {"index": 1}]
    assert batch.meta == {"temperature": 0.5, "global_steps": 3}


def test_memory_is_shared():
    data = dataproto()
    batch: Any = from_dataproto(data)
    assert batch.old_logp is data.batch["old_log_probs"]
    assert batch.uid is data.non_tensor_batch["uid"]
    back = to_dataproto(batch)
    assert back.batch["old_log_probs"].data_ptr() == data.batch["old_log_probs"].data_ptr()
    batch.meta["temperature"] = 1.0
    assert data.meta_info["temperature"] == 0.5


def test_into_a_record_and_a_protocol():
    ready = from_dataproto(dataproto(), into=Ready)
    assert type(ready) is Ready
    assert ready.values is None
    assert ready.meta["global_steps"] == 3
    assert from_dataproto(dataproto(), SequenceProtocol).prompt_ids.shape == (2, 3)
    data = dataproto()
    data.pop(["advantages"])
    with pytest.raises(SchemaError, match="advantages"):
        from_dataproto(data, into=Ready)


def test_layouts_of_what_came_from_verl():
    batch = from_dataproto(dataproto())
    whole = to_layout(batch, "right", pad_token_id=0, per_token=("token_level_scores",))
    assert whole.input_ids.tolist() == [[7, 1, 2, 0, 0, 0], [7, 7, 7, 4, 5, 6]]


def test_position_ids_that_go_on_behind_the_response_follow_too():
    attention_mask = dataproto().batch["attention_mask"]
    counted = torch.clip(torch.cumsum(attention_mask, -1) - 1, min=0)
    counted[0, -1] = 3  # as its rollout counts on
    assert "position_ids" not in from_dataproto(dataproto(position_ids=counted))


def test_position_ids_of_images_stay():
    positions = torch.zeros(2, 3, 6, dtype=torch.int64)
    batch: Any = from_dataproto(dataproto(position_ids=positions))
    assert batch.position_ids is positions
    assert to_dataproto(batch).batch["position_ids"].shape == (2, 3, 6)


def test_columns_or_tensors_alone():
    columns = DataProto.from_dict(non_tensors={"uid": np.array(["a", "b"], object)})
    assert from_dataproto(columns).uid.tolist() == ["a", "b"]
    assert_same_columns(to_dataproto(from_dataproto(columns)), columns)
    tensors: Any = from_dataproto(DataProto.from_dict({"reward_score": torch.ones(2)}))
    assert tensors.rewards.tolist() == [1, 1]
    assert tensors.meta == {}


def assert_same_columns(one: DataProto, other: DataProto) -> None:
    assert one.batch is other.batch is None
    assert one.non_tensor_batch["uid"].tolist() == other.non_tensor_batch["uid"].tolist()


def test_jagged_tensors_stay():
    jagged = torch.nested.nested_tensor([torch.arange(2), torch.arange(3)], layout=torch.jagged)
    data = DataProto.from_dict({"reward_score": torch.ones(2)})
    data.batch["responses"] = jagged
    back: Any = from_dataproto(data)
    assert back.response_ids is jagged
    assert Ragged.from_nested({"ids": back.response_ids}).lengths.tolist() == [2, 3]


def test_sequences_end_to_end_come_back_as_they_were():
    batch = to_layout(example(Ready), "ragged")
    back = from_dataproto(to_dataproto(batch), RaggedRollouts)
    assert type(back) is RaggedRollouts
    assert back.tokens.lengths.tolist() == batch.tokens.lengths.tolist()
    values = validate(back, RaggedRollouts).tokens.values
    for name in ("input_ids", "response_mask", "old_logp", "advantages"):
        assert torch.equal(values[name], batch.tokens.values[name])


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
def test_there_and_back(lengths):
    prompts, responses = [list(one) for one in zip(*lengths, strict=True)]
    data = dataproto(prompts, responses)
    ours = from_dataproto(data)
    back = to_dataproto(ours)
    assert torch.equal(back.batch.pop("reward_score"), ours.rewards)
    assert_same(back, data)
    back.check_consistency()


def test_verl_goes_on_with_it():
    data = to_dataproto(example(Ready, N=4))
    assert len(data) == 4
    assert {"input_ids", "attention_mask", "position_ids", "responses"} <= set(data.batch.keys())
    assert data.batch["response_mask"].dtype == torch.int64
    parts = data.chunk(2)
    again = from_dataproto(DataProto.concat(parts), into=Ready)
    assert again.uid.tolist() == data.non_tensor_batch["uid"].tolist()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"attention_mask": torch.ones(2, 5)}, r"attention_mask.*must be \[2, 6\].*got \[2, 5\]"),
        ({"attention_mask": torch.full((2, 6), 2)}, "attention_mask.*only have values 0 and 1"),
        ({"response_mask": torch.full((2, 3), 0.5)}, "loss_mask.*only have values 0 and 1"),
        ({"input_ids": torch.zeros(2, 6)}, "input_ids.*must be prompts and responses side by side"),
    ],
)
def test_tensors_that_do_not_fit(changed, said):
    with pytest.raises(StructureError, match=said):
        from_dataproto(dataproto(**changed))


@pytest.mark.parametrize("value", [None, {"batch": None}, Batch(a=[1]), DataProto])
def test_what_is_no_dataproto(value):
    with pytest.raises(LeafError, match=r"from_dataproto\(\) takes a verl DataProto"):
        from_dataproto(value)


def test_one_name_twice():
    data = DataProto.from_dict({"a": torch.ones(2)}, {"a": np.array([1, 2], object)})
    with pytest.raises(FieldNameError, match=r"'a'.*in batch and in non_tensor_batch"):
        from_dataproto(data)


def test_what_verl_cannot_take():
    with pytest.raises(StructureError, match="different lengths"):
        to_dataproto(Batch(a=torch.ones(2), b=torch.ones(3)))
    with pytest.raises(NoLengthError):
        to_dataproto(Batch(a=1.0))
    with pytest.raises(FieldNameError, match="response_mask"):
        to_dataproto(Batch(response_mask=torch.ones(2, 3)))
    with pytest.raises(LeafError, match=r"to_dataproto\(\) takes a Batch"):
        to_dataproto({"a": torch.ones(2)})
