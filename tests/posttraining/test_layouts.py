"""Every layout from every other: each value at its token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch, Ragged, errors, objects, validate
from typedbatch.posttraining import LeftPadded, PackedRollouts, RaggedRollouts, Ready, RightPadded, Rollouts, to_layout

LAYOUTS = {
    "split": Rollouts, "left": LeftPadded, "right": RightPadded, "ragged": RaggedRollouts, "packed": PackedRollouts,
}  # fmt: skip
PAD = 99


def rollouts(prompts: list[int], responses: list[int]) -> Ready:
    """Token ``t`` of row ``i``, counted through prompt and response, is ``100 i + t``, and so is its advantage."""
    rows, before, after = len(prompts), max(prompts), max(responses)
    place = torch.arange(before)[None] - before + torch.tensor(prompts)[:, None]
    prompt_mask = place >= 0
    where = torch.arange(after)[None].repeat(rows, 1)
    mask = where < torch.tensor(responses)[:, None]
    number = 100 * torch.arange(rows)[:, None] + torch.tensor(prompts)[:, None] + where
    batch = Ready(
        prompt_ids=torch.where(prompt_mask, 100 * torch.arange(rows)[:, None] + place, PAD),
        prompt_mask=prompt_mask,
        uid=objects([f"p{i // 2}" for i in range(rows)]),
        response_ids=torch.where(mask, number, PAD),
        response_mask=mask,
        loss_mask=mask & (where != 1),
        rewards=torch.arange(rows).float(),
        old_logp=-(number * mask).float(),
        advantages=(number * mask).float(),
    )
    batch.meta["temperature"] = 0.7
    return validate(batch, Ready)


lengths = st.integers(1, 4).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any) for _ in range(2)])
)


@given(lengths, st.sampled_from([*LAYOUTS]), st.sampled_from([*LAYOUTS]))
def test_any_two_ways_to_a_layout_give_the_same(sizes, through, to):
    batch = rollouts(*sizes)
    direct = to_layout(batch, to, pad_token_id=PAD)
    assert to_layout(to_layout(batch, through, pad_token_id=PAD), to, pad_token_id=PAD) == direct
    assert direct.meta == {"temperature": 0.7}
    validate(direct, LAYOUTS[to])


@given(lengths)
def test_there_and_back(sizes):
    batch = rollouts(*sizes)
    there = {name: value for name, value in batch.items() if value is not None}
    for layout in LAYOUTS:
        back = validate(Batch(to_layout(to_layout(batch, layout, pad_token_id=PAD), "split", pad_token_id=PAD)), Ready)
        assert Batch({name: back[name] for name in there}) == Batch(there)


@given(lengths, st.booleans(), st.booleans())
def test_packed_is_what_one_packs_by_hand(sizes, of_arrays, cut):
    batch: Any = rollouts(*sizes)
    if cut:  # fields that are views with gaps
        batch = Batch({name: value for name, value in batch.items() if value is not None})
        for name, value in batch.items():
            if isinstance(value, torch.Tensor) and value.ndim == 2:
                batch[name] = torch.stack([value, value], 2)[..., 0]
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    expected = {"input_ids": torch.cat([batch.prompt_ids, batch.response_ids], 1)[mask]}
    for name in ("response_mask", "loss_mask", "old_logp", "advantages"):
        value = batch[name]
        expected[name] = torch.cat([value.new_zeros(batch.prompt_mask.shape), value], 1)[mask]
    packed = to_layout(batch.to_numpy() if of_arrays else batch, "packed").to_torch()
    for name, value in expected.items():
        assert torch.equal(packed[name], value), name
    assert packed.cu_seqlens.tolist() == [0, *mask.sum(1).cumsum(0).tolist()]


def test_ids_of_other_dtypes_are_widened() -> None:
    batch: Any = rollouts([2, 1], [1, 2])
    batch = Batch({name: value for name, value in batch.items() if value is not None})
    batch.prompt_ids = batch.prompt_ids + 70_000
    batch.response_ids = batch.response_ids.to(torch.uint8)
    for made in (to_layout(batch, "packed"), to_layout(batch.to_numpy(), "packed").to_torch()):
        assert made.input_ids.dtype == torch.int64
        assert made.input_ids[~made.response_mask].min() >= 70_000
    batch.prompt_ids = batch.prompt_ids.numpy()
    with pytest.raises(errors.StructureError, match="ids of prompts and responses must be of one kind"):
        to_layout(batch, "packed")


@pytest.mark.parametrize("layout", ["left", "right", "ragged", "packed"])
def test_fields_without_values_and_gradients_without_responses(layout: str) -> None:
    batch: Any = rollouts([2, 1], [1, 2])
    batch = Batch({name: value for name, value in batch.items() if value is not None})
    batch.extra = torch.zeros(2, 2, 0)
    batch.response_mask[:] = batch.loss_mask[:] = False
    batch.old_logp = batch.old_logp.clone().requires_grad_()
    made: Any = to_layout(batch, layout, pad_token_id=PAD, per_token=["extra"])
    tokens = made.tokens.values if layout == "ragged" else made
    assert tokens.extra.shape[-1] == 0
    tokens.old_logp.sum().backward()
    assert not batch.old_logp.grad.any()


def test_blocks_in_full():
    batch = rollouts([1, 2], [2, 1])
    left, right = (to_layout(batch, layout, pad_token_id=PAD) for layout in ("left", "right"))
    assert left.input_ids.tolist() == [[0, 1, 2], [100, 101, 102]]
    assert left.advantages.tolist() == [[1, 2], [0, 102]]
    assert right.advantages.tolist() == [[0, 1, 2], [0, 0, 102]]
    longer = to_layout(rollouts([1, 3], [2, 1]), "right", pad_token_id=PAD)
    assert longer.input_ids.tolist() == [[0, 1, 2, PAD], [100, 101, 102, 103]]
    assert longer.attention_mask.tolist() == [[True, True, True, False], [True] * 4]


def test_ragged_rows_are_taken_whole_and_packed_ones_refused():
    batch = rollouts([1, 2, 2], [2, 1, 3])
    rows = to_layout(to_layout(batch, "ragged")[[2, 0]], "split", pad_token_id=PAD)
    assert rows.response_ids.tolist() == [[202, 203, 204], [1, 2, PAD]]
    with pytest.raises(errors.RowIndexError, match=r"field 'cu_seqlens'.*Ragged"):
        to_layout(batch, "packed")[:2]


def test_arrays_and_masks_of_numbers():
    batch = rollouts([1, 2], [2, 1]).to_numpy()
    batch["response_mask"] = batch.response_mask.astype(np.int64)
    right = to_layout(batch, "right", pad_token_id=PAD)
    assert isinstance(right.input_ids, np.ndarray)
    assert right.response_mask.tolist() == [[0, 1, 1], [0, 0, 1]]


def test_as_many_packed_tokens_as_samples():
    packed = to_layout(rollouts([0, 1], [0, 1]), "packed")
    assert packed.input_ids.shape == packed.uid.shape
    assert to_layout(packed, "split", pad_token_id=PAD).uid.tolist() == ["p0", "p0"]


def test_values_at_prompts_are_kept_where_there_is_a_place_for_them():
    right = to_layout(rollouts([2], [2]), "right", pad_token_id=PAD)
    right.advantages[:] = torch.tensor([[5.0, 6, 7, 8]])
    assert to_layout(right, "packed").advantages.tolist() == [5, 6, 7, 8]
    assert to_layout(right, "left", pad_token_id=PAD).advantages.tolist() == [[7, 8]]


def test_fields_of_ones_own():
    batch = rollouts([2, 1], [2, 1])
    batch["entropy"] = batch.advantages + 1
    with pytest.raises(errors.StructureError, match=r"field 'entropy': may have a value for each token.*per_token="):
        to_layout(batch, "right", pad_token_id=PAD)
    right = to_layout(batch, "right", pad_token_id=PAD, per_token=["entropy"])
    assert right["entropy"].tolist() == [[0, 0, 3, 4], [0, 102, 0, 0]]
    kept = to_layout(batch, "right", pad_token_id=PAD, per_row=["entropy"])
    assert kept["entropy"] is batch["entropy"]
    batch["teacher"] = torch.ones(2, 2, 3)
    three = to_layout(batch, "ragged", per_token=["entropy", "teacher"])
    assert three.tokens.values["teacher"].shape == (6, 3)


def wrong_side() -> Batch:
    right = Batch(to_layout(rollouts([2, 1], [1, 2]), "right", pad_token_id=PAD))
    right["response_mask"] = torch.tensor([[True, True, False], [False, True, True]])
    return right


@pytest.mark.parametrize(
    ("batch", "layout", "error", "text"),
    [
        (rollouts([1], [1]), "middle", errors.SettingError, "expects one of 'split', 'left'.*got 'middle'"),
        (rollouts([1], [1]), "rigth", errors.SettingError, "did you mean 'right'"),
        (Batch(obs=[1]), "right", errors.MissingFieldError, "no field 'response_ids'"),
        (Batch(input_ids=[[1]]), "split", errors.MissingFieldError, "no field 'attention_mask'"),
        (Batch(response_ids=[[1]]), "left", errors.MissingFieldError, "no field 'prompt_mask'"),
        (wrong_side(), "split", errors.StructureError, "in row 0 a token outside the response comes after"),
    ],
)
def test_refused(batch, layout, error, text):
    before = Batch(batch)
    with pytest.raises(error, match=text):
        to_layout(batch, layout, pad_token_id=PAD)
    assert batch == before


def test_more_refused():
    batch = rollouts([2, 1], [1, 2])
    with pytest.raises(errors.SettingError, match="the layout 'right' has padding; pass pad_token_id="):
        to_layout(batch, "right")
    batch["advantages"] = torch.zeros(2)
    with pytest.raises(errors.StructureError, match=r"a field of tokens must be \[2, 2\], got \[2\]"):
        to_layout(batch, "right", pad_token_id=PAD)
    left = to_layout(rollouts([2, 1], [1, 2]), "left", pad_token_id=PAD)
    left.response_mask[:] = True
    left.attention_mask[0, :2] = False
    with pytest.raises(errors.StructureError, match="'response_mask': row 0 is True at position 0, where attention_m"):
        to_layout(left[:1], "split", pad_token_id=PAD)
    ragged = Batch(tokens=Ragged({"input_ids": [1, 2]}, [2]))
    with pytest.raises(errors.MissingFieldError, match="no field 'response_mask'"):
        to_layout(ragged, "split", pad_token_id=PAD)


T = torch.tensor
LOGP = T([[0.5, 0.25, 0.125, 0.0625]])
SPLIT = {
    "prompt_ids": T([[1, 2]]), "prompt_mask": T([[True, True]]), "response_ids": T([[10, 11, 12, 13]]),
    "response_mask": T([[True] * 4]), "old_logp": LOGP,
}  # fmt: skip
LEFT = {
    "input_ids": T([[PAD, 2, 10, 11, 12, 13]]), "attention_mask": T([[0, 1, 1, 1, 1, 1]]),
    "response_mask": T([[True] * 4]), "old_logp": LOGP,
}  # fmt: skip
RIGHT = {
    "input_ids": T([[2, 10, 11, 12]]), "attention_mask": T([[1, 1, 1, 1]]), "response_mask": T([[0, 1, 1, 1]]),
    "old_logp": LOGP,
}  # fmt: skip
PACKED = {"input_ids": torch.arange(6), "cu_seqlens": T([0, 2, 6]), "response_mask": T([0, 1, 0, 1, 1, 1])}


def test_tokens_of_tools_are_carried_by_either_way_of_masking_them():
    answers = Batch({**SPLIT, "loss_mask": T([[True, False, False, True]])})
    packed = to_layout(answers, "packed")
    assert packed.input_ids.tolist() == [1, 2, 10, 11, 12, 13]
    assert packed.old_logp.tolist() == [0, 0, *LOGP[0].tolist()]
    assert packed.loss_mask.tolist() == [False, False, True, False, False, True]
    for block, ids in ((LEFT, [2, 10, 11, 12, 13]), (RIGHT, [2, 10, 11, 12])):
        turns = block["response_mask"].clone().bool()
        turns[0, 2] = False  # beside an attention_mask this one does not say which tokens are there
        packed = to_layout(Batch({**block, "response_mask": turns}), "packed")
        assert packed.input_ids.tolist() == ids
        assert packed.old_logp.tolist() == [0] * (len(ids) - 4) + LOGP[0].tolist()
        assert packed.response_mask.tolist() == [False] * (len(ids) - 4) + turns[0].tolist()


def test_a_block_may_be_padded_on_both_sides():
    both = Batch({**LEFT, "attention_mask": T([[0, 1, 1, 1, 1, 0]]), "response_mask": T([[1, 1, 1, 0]])})
    split = to_layout(both, "split", pad_token_id=PAD)
    assert (split.prompt_ids.tolist(), split.response_ids.tolist()) == ([[2]], [[10, 11, 12]])
    assert split.old_logp.tolist() == LOGP[:, :3].tolist()


GAP = r".*contiguous.*row 0 has no token at position {} and one at {}\. .*True in this mask and False in loss_mask"
WIDE = {"prompt_ids": T([[1, 2, 3]]), "prompt_mask": T([[1, 0, 1]])}
TWO = {"prompt_ids": T([[1, 2]] * 2), "prompt_mask": T([[1, 1]] * 2)}
ENDS = "'cu_seqlens': .*must begin with 0, never decrease and end with the number of tokens, .6., got "


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({**SPLIT, "response_mask": T([[1, 0, 0, 1]])}, "'response_mask': " + GAP.format(2, 3)),
        ({**SPLIT, "response_mask": T([[0, 1, 1, 0]])}, "'response_mask': " + GAP.format(0, 1)),
        ({**SPLIT, **WIDE}, "'prompt_mask': " + GAP.format(1, 2)),
        ({**LEFT, "attention_mask": T([[1, 0, 1, 1, 1, 1]])}, "'attention_mask': " + GAP.format(1, 2)),
        ({**RIGHT, "attention_mask": T([[1, 1, 0, 1]])}, "'attention_mask': " + GAP.format(2, 3)),
        (
            {**LEFT, "attention_mask": T([[0, 1, 1, 1, 1, 0]])},
            "'response_mask': row 0 is True at position 3, where attention_mask has no token",
        ),
        (
            {**RIGHT, "attention_mask": T([[1, 1, 1, 0]])},
            "'response_mask': row 0 is True at position 3, where attention_mask has no token",
        ),
        (
            {**SPLIT, "response_mask": T([[1, 1, 1, 0]]), "loss_mask": T([[1, 0, 1, 1]])},
            "'loss_mask': row 0 is True at position 3, where response_mask has no token",
        ),
        ({**SPLIT, **TWO}, "'response_mask': it has 1 rows, but there are 2 samples"),
        (
            {**LEFT, "input_ids": LEFT["input_ids"].repeat(2, 1), "attention_mask": T([[1] * 6] * 2)},
            "'response_mask': it has 1 rows, but there are 2 samples",
        ),
        (
            {**SPLIT, "prompt_ids": T([[1, 2, 3]])},
            r"'prompt_ids': it must have the shape of its mask, \[1, 2\], got \[1, 3\]",
        ),
        ({**LEFT, "input_ids": T([[1, 2]]), "attention_mask": T([[1, 1]])}, r"it is \[1, 4\], wider than input_ids"),
        ({**SPLIT, "rewards": T([1.0, 2.0])}, r"'rewards': torch f32\[2\] has 2 rows, but there are 1 samples"),
        *[({**PACKED, "cu_seqlens": T(ends)}, ENDS) for ends in ([0, 2, 5], [0, 7], [0], [2, 8], [], [0, 4, 2, 6])],
        ({**SPLIT, "response_mask": None}, "'response_mask': a mask must be an array or a tensor, got None"),
        ({**LEFT, "response_mask": None}, "'response_mask': a mask must be an array or a tensor, got None"),
        ({**RIGHT, "attention_mask": objects(["a"])}, r"'attention_mask': a mask .*got object\[1\]"),
        ({**SPLIT, "prompt_ids": None}, "'prompt_ids': ids of tokens must be an array or a tensor, got None"),
        ({**PACKED, "input_ids": None}, "'input_ids': ids of tokens must be an array or a tensor, got None"),
    ],
)
def test_no_token_is_moved_lost_or_made_up(fields, text, layout):
    with pytest.raises(errors.StructureError, match=text):
        to_layout(Batch(fields), layout, pad_token_id=PAD)
