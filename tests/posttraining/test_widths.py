"""Rollouts of several workers, with different longest responses, in one batch; columns that no row uses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from tests.posttraining.test_layouts import LAYOUTS, PAD, lengths, rollouts
from typedbatch import Batch, cat, objects, stack, validate
from typedbatch.errors import SettingError, SizeError, StructureError
from typedbatch.posttraining import to_layout, trim

PADDED = ("split", "left", "right")


def tokens_of(batch: Batch) -> Batch:
    """Return the rows without padding, whatever the layout."""
    return to_layout(batch, "ragged")


@example([([1], [1]), ([0, 1], [0, 2])], "right")  # no row has padding on one side alone
@given(st.lists(lengths, min_size=1, max_size=3), st.sampled_from(PADDED))
def test_joined_rows_are_those_of_the_parts(sizes, layout):
    parts = [to_layout(rollouts(*one), layout, pad_token_id=PAD) for one in sizes]
    sides = {}
    if layout != "split" and not any(
        (~part.attention_mask).any() or part.response_mask.shape != part.attention_mask.shape for part in parts
    ):
        sides = dict.fromkeys(parts[0].get_keys(), layout)  # Without padding in any part, nothing shows the side.
        sides = {name: side for name, side in sides.items() if parts[0][name] is not None}
    joined = cat(parts, widths=sides or "pad", pad_token_id=PAD)
    validate(joined, LAYOUTS[layout])
    assert tokens_of(joined) == cat([tokens_of(part) for part in parts])
    ids = joined.response_ids[~joined.response_mask] if layout == "split" else joined.input_ids[~joined.attention_mask]
    assert (ids == PAD).all()
    assert joined.meta == {"temperature": 0.7}


@given(lengths, st.sampled_from([*LAYOUTS]), st.randoms(), st.integers(1, 4))
def test_trimming_loses_no_token(sizes, layout, random, multiple):
    batch = to_layout(rollouts(*sizes), layout, pad_token_id=PAD)
    part = batch
    if layout != "packed":
        part = batch[np.array([random.random() < 0.5 for _ in range(len(batch))])]
    trimmed = trim(part, multiple_of=multiple)
    assert type(trimmed) is type(batch)
    assert tokens_of(trimmed) == tokens_of(part)
    for name in ("response_ids", "input_ids") if layout in PADDED else ():
        if name in trimmed:
            used = (trimmed.response_mask if layout == "split" else trimmed.attention_mask).sum(1)
            width = int(used.max()) if len(used) else 0
            assert trimmed[name].shape[1] == min(-(-width // multiple) * multiple, part[name].shape[1])


def test_columns_are_views():
    batch = rollouts([1, 3], [5, 2])
    trimmed = trim(batch[1:])
    assert trimmed.response_ids.shape == (1, 2)
    assert trimmed.response_ids.data_ptr() == batch.response_ids[1:].data_ptr()
    assert trimmed.rewards.data_ptr() == batch.rewards[1:].data_ptr()
    assert batch.response_ids.shape == (2, 5)


def test_own_fields_are_trimmed_where_their_name_says_what_they_are():
    batch = Batch(rollouts([1, 3, 2], [4, 2, 2]), prompt_scores=torch.arange(9.0).reshape(3, 3), own=torch.ones(3, 4))
    with pytest.raises(StructureError, match=r"'own': may have a value for each token.*per_token=, or in per_row="):
        trim(batch)
    assert trim(batch[2:], per_token=["own"]).own.shape == (1, 2)
    assert trim(batch[2:], per_row=["own"]).own.shape == (1, 4)
    assert trim(batch[2:], per_row=["own"]).prompt_scores.tolist() == [[7.0, 8.0]]
    with pytest.raises(SizeError, match="multiple_of"):
        trim(batch, multiple_of=0)


def test_the_error_says_what_pads():
    parts = [rollouts([2], [3]), rollouts([2], [5])]
    with pytest.raises(StructureError, match=r"^field 'response_ids': it is 3 wide in batch 0 and 5 wide in batch 1; "):
        cat(parts)
    with pytest.raises(StructureError, match="widths='pad' pads it"):
        cat([Batch(x=np.zeros((1, 2))), Batch(x=np.zeros((1, 3)))])
    with pytest.raises(StructureError, match="do not fit together"):
        cat([Batch(x=np.zeros((1, 2, 3))), Batch(x=np.zeros((1, 3, 4)))])


def test_ids_are_padded_with_the_token_that_is_named():
    parts = [rollouts([2], [3]), rollouts([2], [5])]
    with pytest.raises(SettingError, match="'response_ids': it is padded; pass pad_token_id="):
        cat(parts, widths="pad")
    assert parts[0].response_ids.shape == (1, 3)
    assert cat(parts, widths="pad", pad_token_id=7).response_ids.tolist()[0][3:] == [7, 7]
    assert cat([parts[0], parts[0]], widths="pad") == cat([parts[0], parts[0]])


@pytest.mark.parametrize("widths", ["padd", None, 3, {"scores": "middle"}, {"x": 1}])
def test_other_values_are_refused(widths):
    with pytest.raises(SettingError, match="widths= must be 'error', 'pad' or a dict with the sides"):
        cat([Batch(x=np.zeros((1, 2)))], widths=widths)


def test_a_side_for_a_field_that_does_not_exist_is_refused():
    with pytest.raises(SettingError, match=r"widths= names 'scroes', which no batch has; did you mean 'scores'\?"):
        cat([Batch(scores=np.zeros((1, 2)))], widths={"scroes": "left"})


def test_own_fields_are_padded_as_the_prompts_if_they_are_as_wide():
    def part(before: int, after: int) -> Batch:
        return Batch(rollouts([before], [after]), saliency=torch.ones(1, before), nested={"own": np.ones((1, after))})

    joined = cat([part(1, 4), part(3, 2)], widths="pad", pad_token_id=PAD)
    assert joined.saliency.tolist() == [[0, 0, 1], [1, 1, 1]]
    assert joined.nested.own.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    left = cat([part(1, 4), part(3, 2)], widths={"nested.own": "left"}, pad_token_id=PAD)
    assert left.nested.own.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    with pytest.raises(StructureError, match=r"'saliency': it is as wide as both prompts and responses; widths="):
        cat([part(2, 2), part(3, 3)], widths="pad", pad_token_id=PAD)
    both = cat([part(2, 2), part(3, 3)], widths={"saliency": "left"}, pad_token_id=PAD)
    assert both.saliency.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_whole_sequences_without_any_padding_do_not_show_their_side():
    parts = [to_layout(rollouts([0], [count]), "right", pad_token_id=PAD) for count in (2, 3)]
    with pytest.raises(StructureError, match=r"attention_mask has no padding; widths=\{'\w+': 'left'\}"):
        cat(parts, widths="pad", pad_token_id=PAD)


def test_other_kinds_are_left_as_they_are():
    ragged = to_layout(rollouts([1, 2], [3, 1]), "ragged")
    parts = [
        Batch(
            tokens=ragged.tokens[rows],
            text=objects(["a"]),
            none=None,
            x=torch.ones(1, 1 + rows.start),
            reserved=Batch(),
        )
        for rows in (slice(0, 1), slice(1, 2))
    ]
    joined = cat(parts, widths="pad")
    assert joined.tokens == ragged.tokens
    assert joined.x.tolist() == [[1, 0], [1, 1]]
    assert joined.none is None


def test_padding_keeps_gradients_and_objects():
    weight = torch.ones(1, 2, requires_grad=True)
    joined = cat([Batch(x=weight * 2), Batch(x=torch.ones(1, 3))], widths="pad")
    joined.x.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[2.0, 2.0]]
    names = [np.array([["a"]], object), np.array([["b", "c"]], object)]
    assert cat([Batch(x=one) for one in names], widths="pad").x.tolist() == [["a", None], ["b", "c"]]


def test_rows_are_stacked_to_one_width():
    first, second = rollouts([1, 3], [4, 2])[0], trim(rollouts([1, 3], [4, 2])[1:])[0]
    rows = stack([first, second], widths="pad", pad_token_id=PAD)
    whole = rollouts([1, 3], [4, 2])
    for name in ("prompt_ids", "prompt_mask", "response_ids", "response_mask", "old_logp"):
        assert torch.equal(rows[name], whole[name])
    blocks = stack([Batch(x=np.ones((2, 1))), {"x": np.ones((2, 2))}], widths="pad")
    assert blocks.x.tolist() == [[[1, 0], [1, 0]], [[1, 1], [1, 1]]]
