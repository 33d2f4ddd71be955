"""Inputs of the loss in GRPOTrainer of TRL 1.16, as ``_generate_and_score_completions`` makes them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch, objects
from typedbatch.bridges.trl import from_trl, pairs_from_trl, pairs_to_trl, to_trl
from typedbatch.errors import FieldNameError, LeafError, MissingFieldError, SchemaError, StructureError
from typedbatch.posttraining import Pairs, PolicyLossProtocol, Ready, SequenceProtocol, to_layout
from typedbatch.ragged import Ragged
from typedbatch.testing import example

LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def right(lengths: list[int]) -> torch.Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def inputs(prompts: list[int] = [1, 3], completions: list[int] = [2, 3], **more: Any) -> dict[str, Any]:
    """In the order, dtypes and padding of TRL."""
    prompt_mask, mask = right(prompts).flip(1), right(completions)
    n = torch.arange(mask.numel()).reshape(mask.shape)
    return {
        "prompt_ids": prompt_mask * 7, "prompt_mask": prompt_mask, "completion_ids": mask * n, "completion_mask": mask,
        "advantages": torch.arange(len(mask)) - 0.5, "num_items_in_batch": mask.sum(), "old_per_token_logps": -n / 7,
        "importance_sampling_ratio": n / 2, "sampling_per_token_logps": -n / 8, "ref_per_token_logps": -n / 9, **more,
    }  # fmt: skip


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )


def test_names_masks_and_meta():
    theirs = inputs()
    batch: Any = from_trl(theirs)
    assert set(batch.keys()) == {
        "prompt_ids", "prompt_mask", "response_ids", "response_mask", "advantages", "old_logp", "is_weights",
        "rollout_logp", "ref_logp", "loss_mask",
    }  # fmt: skip
    assert batch.response_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.prompt_mask.tolist() == [[False, False, True], [True, True, True]]
    assert torch.equal(batch.loss_mask, batch.response_mask)
    assert batch.meta == {"num_items_in_batch": 5}
    assert batch.old_logp is theirs["old_per_token_logps"]
    assert batch.response_ids is theirs["completion_ids"]


def test_advantages_are_at_the_tokens_of_the_completion():
    batch: Any = from_trl(inputs())
    assert batch.advantages.tolist() == [[-0.5, -0.5, 0.0], [0.5, 0.5, 0.5]]
    per_token = torch.rand(2, 3)
    assert from_trl(inputs(advantages=per_token)).advantages is per_token  # as subclasses of the trainer give them


def test_a_ratio_for_each_sequence_is_at_its_tokens():
    batch: Any = from_trl(inputs(importance_sampling_ratio=torch.tensor([[0.5], [2.0]])))
    assert batch.is_weights.tolist() == [[0.5, 0.5, 0.0], [2.0, 2.0, 2.0]]


def test_tokens_of_tools_do_not_count():
    tool_mask = torch.tensor([[1, 0, 1], [0, 1, 1]])
    batch: Any = from_trl(inputs(tool_mask=tool_mask))
    assert batch.loss_mask.tolist() == [[True, False, False], [False, True, True]]
    assert "tool_mask" not in batch


def test_completions_that_were_cut_off_have_no_tokens():
    masked = inputs()
    masked["completion_mask"] = torch.tensor([[0, 0, 0], [1, 1, 1]])
    batch: Any = from_trl(masked)
    assert batch.advantages.tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]
    assert same(to_trl(batch), {**masked, "advantages": torch.tensor([0.0, 0.5])})


def test_into_a_record_and_a_protocol():
    assert from_trl(inputs(), PolicyLossProtocol).meta == {"num_items_in_batch": 5}
    assert from_trl(inputs(), into=SequenceProtocol).prompt_ids.shape == (2, 3)
    ready = from_trl({**inputs(), "uid": ["a", "a"], "rewards": torch.ones(2)}, into=Ready)
    assert type(ready) is Ready
    assert ready.uid.tolist() == ["a", "a"]
    assert ready.values is None
    with pytest.raises(SchemaError, match="uid"):
        from_trl(inputs(), into=Ready)


def test_none_is_left_out():
    assert "ref_logp" not in from_trl(inputs(ref_per_token_logps=None))


@given(st.data(), st.booleans(), st.booleans())
def test_there_and_back(data, with_tools, per_token):
    completions = data.draw(LENGTHS)
    prompts = data.draw(st.lists(st.integers(1, 4), min_size=len(completions), max_size=len(completions)))
    theirs = inputs(prompts, completions)
    there = theirs["completion_mask"]
    if with_tools:
        flags = data.draw(st.lists(st.integers(0, 1), min_size=there.numel(), max_size=there.numel()))
        tool_mask = torch.tensor(flags).reshape(there.shape) | (1 - there)
        if not torch.equal(tool_mask * there, there):  # TRL gives one of ones too, where no tool was called
            theirs["tool_mask"] = tool_mask
    if per_token:
        theirs["advantages"] = torch.arange(there.numel()).reshape(there.shape) / 3
    ours = from_trl(theirs)
    if per_token and max(completions) == 1:  # one token each: then it is one number for each sample
        theirs["advantages"] = theirs["advantages"][:, 0]
    assert same(to_trl(ours), theirs)
    assert from_trl(to_trl(ours)).keys() == ours.keys()


def test_what_a_record_has_beside():
    ready = from_trl({**inputs(), "uid": ["a", "b"], "rewards": torch.ones(2)}, into=Ready)
    ready.meta = {"num_items_in_batch": 5, "temperature": 0.5, "model": "m"}
    theirs = to_trl(ready)
    assert theirs["uid"] == ["a", "b"]
    assert theirs["temperature"] == torch.tensor(0.5)
    assert "model" not in theirs
    assert "values" not in theirs
    assert to_trl(ready.to_numpy())["completion_ids"].tolist() == theirs["completion_ids"].tolist()


def test_images_have_no_row_for_each_sample():
    with pytest.raises(StructureError, match="pixel_values has 6, others 2"):
        from_trl(inputs(pixel_values=torch.zeros(6, 4)))


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"completion_mask": torch.full((2, 3), 2)}, StructureError, "response_mask.*only have values 0 and 1"),
        ({"tool_mask": [[1], [1]]}, LeafError, "tool_mask.*a mask must be a tensor"),
        ({"advantages": torch.zeros(2, 2)}, StructureError, r"advantages.*\[2\], or \[2, 3\].*got \[2, 2\]"),
        ({"advantages": [1.0, 2.0]}, LeafError, "advantages.*must be a tensor"),
        ({"completion_mask": None}, MissingFieldError, "completion_mask"),
        ({"loss_mask": torch.ones(2, 3)}, FieldNameError, "loss_mask"),
    ],
)
def test_what_is_refused(changed, error, said):
    with pytest.raises(error, match=said):
        from_trl(inputs(**changed))


@pytest.mark.parametrize("value", [None, [1], Batch(a=[1])])
def test_what_is_no_dict(value):
    with pytest.raises(LeafError, match=r"from_trl\(\) takes the dict"):
        from_trl(value)


def test_what_trl_cannot_take():
    batch: Any = from_trl(inputs())
    with pytest.raises(StructureError, match="loss_mask.*is True where response_mask is False"):
        to_trl(Batch(batch, loss_mask=torch.ones(2, 3, dtype=torch.bool)))
    with pytest.raises(LeafError, match="nested.*tensors and lists"):
        to_trl(Batch(batch, nested={"a": torch.zeros(2)}))
    with pytest.raises(MissingFieldError, match="response_mask"):
        to_trl(Batch(a=torch.zeros(2)))
    with pytest.raises(LeafError, match=r"to_trl\(\) takes a Batch"):
        to_trl({"a": 1})
    with pytest.raises(FieldNameError, match="completion_ids"):
        to_trl(Batch(batch, completion_ids=torch.zeros(2)))
    with pytest.raises(StructureError, match="different lengths"):
        to_trl(Batch(batch, uid=objects(["a"])))
    with pytest.raises(
        LeafError, match=r"'turns': TRL takes tensors and lists, got Ragged\[2 x 1..2\]; .padded\(\) pads"
    ):
        to_trl(Batch(batch, turns=Ragged({"x": torch.zeros(3)}, [1, 2])))


def test_other_layouts_are_refused_with_the_way():
    batch = example(Ready)
    way = r"padded by themselves; to_layout\(batch, 'split', pad_token_id=...\) makes them"
    for layout in ("ragged", "packed", "left", "right"):
        with pytest.raises(StructureError, match=way):
            to_trl(to_layout(batch, layout, pad_token_id=0))
    given = to_trl(to_layout(to_layout(batch, "ragged"), "split", pad_token_id=0))
    assert given["prompt_ids"].shape[0] == len(batch)


def test_tensors_come_first_then_lists_then_numbers():
    batch = from_trl(inputs())
    mixed = Batch(
        {"uid": objects(["a", "b"]), **batch}, meta={"num_items_in_batch": np.int64(5), "lr": 0.5, "note": "x"}
    )
    given = to_trl(mixed)
    assert [*given][-3:] == ["uid", "num_items_in_batch", "lr"]
    assert given["num_items_in_batch"].dtype == torch.int64
    assert to_trl(Batch(batch, meta={"n": torch.tensor(3)}))["n"].item() == 3


@pytest.mark.parametrize("ratio", [[[0.5], [2.0]], [[0.5, 1.5, 1.0], [2.0, 1.0, 1.0]], [[0.5, 0.5, 1.0], [2.0] * 3]])
def test_importance_ratios_come_back_as_they_were(ratio):
    theirs = inputs(importance_sampling_ratio=torch.tensor(ratio))
    assert torch.equal(to_trl(from_trl(theirs))["importance_sampling_ratio"], torch.tensor(ratio))


def pairs(prompts: list[int] = [1, 3], chosen: list[int] = [2, 1], rejected: list[int] = [1, 4], **more: Any) -> Pairs:
    fields = {}
    for name, sizes in (("prompt", prompts), ("chosen", chosen), ("rejected", rejected)):
        mask = right(sizes).bool() if name != "prompt" else right(sizes).flip(1).bool()
        fields |= {f"{name}_ids": torch.where(mask, torch.arange(mask.numel()).reshape(mask.shape) + 1, 99)}
        fields |= {f"{name}_mask": mask}
    return Pairs(**fields, **more)


def test_pairs_are_two_halves():
    given = pairs_to_trl(pairs(ref_chosen_logp=torch.ones(2)), pad_token_id=99)
    assert given["input_ids"].tolist() == [
        [3, 1, 2, 99, 99, 99, 99], [4, 5, 6, 3, 99, 99, 99], [3, 1, 99, 99, 99, 99, 99], [4, 5, 6, 5, 6, 7, 8],
    ]  # fmt: skip
    assert given["completion_mask"].sum(1).tolist() == [2, 1, 1, 4]
    assert given["attention_mask"].sum(1).tolist() == [3, 4, 2, 7]
    assert [*given] == ["input_ids", "attention_mask", "completion_mask", "ref_chosen_logps"]


SIZES = st.integers(1, 4).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(least, 4), min_size=n, max_size=n) for least in (0, 1, 1)])
)


@given(SIZES)
def test_pairs_there_and_back(sizes):
    if not any(sizes[0]):
        return
    batch = pairs(*sizes, ref_chosen_logp=torch.zeros(len(sizes[0])), ref_rejected_logp=torch.ones(len(sizes[0])))
    assert pairs_from_trl(pairs_to_trl(batch, pad_token_id=99), pad_token_id=99) == batch


def test_dicts_that_are_no_pairs_are_refused():
    theirs = pairs_to_trl(pairs(), pad_token_id=99)
    with pytest.raises(MissingFieldError, match="attention_mask"):
        pairs_from_trl({"input_ids": theirs["input_ids"]}, pad_token_id=99)
    with pytest.raises(StructureError, match="'input_ids': it has 3 rows, and pairs are two halves"):
        pairs_from_trl({name: tensor[:3] for name, tensor in theirs.items()}, pad_token_id=99)
    other = {**theirs, "input_ids": theirs["input_ids"].clone()}
    other["input_ids"][3, 0] += 1
    with pytest.raises(StructureError, match="the two halves of pair 1 have different prompts"):
        pairs_from_trl(other, pad_token_id=99)
    empty = {**theirs, "completion_mask": theirs["completion_mask"].clone()}
    empty["completion_mask"][1] = 0
    with pytest.raises(StructureError, match="different prompts|has no token"):
        pairs_from_trl(empty, pad_token_id=99)
    with pytest.raises(SchemaError, match="chosen_mask"):
        pairs_to_trl(Batch(prompt_ids=torch.ones(1, 1)), pad_token_id=99)
