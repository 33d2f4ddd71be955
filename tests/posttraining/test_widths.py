"""Rollouts of several workers, with different longest responses, in one batch; columns that no row uses."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from tests.posttraining.test_layouts import LAYOUTS, PAD, lengths, rollouts
from typedbatch import Batch, BatchRecord, SeparateSizes, cat, objects, stack, validate
from typedbatch.errors import SettingError, SizeError, StructureError
from typedbatch.posttraining import LeftPadded, RightPadded, Rollouts, map_tokens, micro_batches, to_layout, trim
from typedbatch.schema import schema_of

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
    scores = torch.arange(9.0).reshape(3, 3)
    batch = Batch(rollouts([1, 3, 2], [4, 2, 2]), prompt_scores=scores, own=torch.ones(3, 4), both=torch.ones(3, 7))
    names = ["prompt_scores", "own", "both"]
    for name in names:
        others = [one for one in names if one != name]
        with pytest.raises(
            StructureError, match=rf"'{name}': may have a value for each token.*per_token=, or in per_row="
        ):
            trim(batch, per_row=others)
    trimmed = trim(batch[2:], per_token=names)
    assert (trimmed.own.shape, trimmed.both.shape) == ((1, 2), (1, 4))
    assert trimmed.prompt_scores.tolist() == [[7.0, 8.0]]
    assert [trim(batch[2:], per_row=names)[name].shape[1] for name in names] == [3, 4, 7]
    with pytest.raises(
        StructureError, match=r"'prompt_scores': a field of tokens of prompts must be \[3, 3\], got \[3, 2"
    ):
        trim(Batch(batch, prompt_scores=scores[:, :2]), per_token=names)
    with pytest.raises(SizeError, match="multiple_of"):
        trim(batch, multiple_of=0)


class Extra(BatchRecord):
    """A batch that a user nests in rollouts."""

    entropy: Float[Tensor, "N R"]
    style: Float[Tensor, "N F"]
    hint: Float[Tensor, "N P"]


class Featured(Rollouts):
    """Rollouts with features that may be as wide as the tokens."""

    embed: Float[Tensor, "N F"]
    table: Float[Tensor, "N G K"]
    fixed: Float[Tensor, "N 2"]
    entropy: Float[Tensor, "N R K"]
    saliency: Float[Tensor, "N P"]
    places: Float[Tensor, "N P+R"]
    values: Float[Tensor, "N F"]
    extra: Extra
    apart: Annotated[Extra, SeparateSizes]


def featured(sizes: Any, wide: int) -> Featured:
    """Return rollouts whose values number the tokens of each sample, with features of width ``wide``."""
    plain = rollouts(*sizes)
    rows = len(plain)
    entropy, saliency = plain.advantages, plain.prompt_ids.float() * plain.prompt_mask
    feature = torch.arange(float(rows * wide)).reshape(rows, wide)
    return validate(
        Batch(
            {field.name: plain[field.name] for field in schema_of(Rollouts) if plain[field.name] is not None},
            embed=feature, table=torch.ones(rows, wide, 2), fixed=feature[:, :1].repeat(1, 2), values=feature,
            entropy=entropy[..., None].repeat(1, 1, 2), saliency=saliency, places=torch.cat([saliency, entropy], 1),
            extra=Extra(entropy=entropy, style=feature, hint=saliency),
            apart=Extra(entropy=feature, style=feature, hint=feature),
        ),
        Featured,
    )  # fmt: skip


WIDTHS = [lambda prompt, _: prompt, lambda _, response: response, lambda prompt, response: prompt + response]


@given(lengths, st.sampled_from(WIDTHS), st.randoms())
def test_features_that_are_as_wide_as_tokens_stay_as_they_are(sizes, width, random):
    before, after = max(sizes[0]), max(sizes[1])
    batch = featured(sizes, width(before, after))
    chosen = [row for row in range(len(batch)) if random.random() < 0.6] or [0]
    part = batch[chosen]
    trimmed = trim(part)
    validate(trimmed, Featured)
    back = to_layout(part, "split", pad_token_id=PAD)
    wide = [int(part[name].sum(1).max()) for name in ("prompt_mask", "response_mask")]
    for made in (trimmed, back):
        for name in ("embed", "table", "fixed", "values", "apart"):
            assert Batch(x=made[name]) == Batch(x=part[name])
        assert torch.equal(made.extra.style, part.extra.style)
        assert [made.prompt_ids.shape[1], made.response_ids.shape[1]] == wide
        there, said = made.prompt_mask, made.response_mask
        assert torch.equal(made.saliency[there], made.prompt_ids[there].float())
        assert torch.equal(made.extra.hint, made.saliency)
        assert torch.equal(made.entropy[said][:, 0], made.response_ids[said].float())
        assert torch.equal(made.extra.entropy, made.entropy[..., 0])
        assert torch.equal(made.places, torch.cat([made.saliency, made.entropy[..., 0]], 1))
    for one in micro_batches(batch, 10):
        assert torch.equal(one.batch.embed, batch.embed[one.rows])
    assert torch.equal(map_tokens(batch, 10, lambda rows: rows.entropy[..., 0]), batch.entropy[..., 0])
    packed = to_layout(batch, "packed")
    assert torch.equal(packed.places, packed.input_ids.float())
    assert torch.equal(packed["saliency"] + packed["entropy"][:, 0], packed.places)
    with pytest.raises(StructureError, match="'saliency': the layout 'left' has no values of prompts"):
        to_layout(batch, "left", pad_token_id=PAD)


class LeftFeatured(LeftPadded):
    """Whole sequences with a feature and a value for each token."""

    embed: Float[Tensor, "N F"]
    places: Int[Tensor, "N T"]


class RightFeatured(RightPadded):
    """Whole sequences with a feature and a value for each token."""

    embed: Float[Tensor, "N F"]
    places: Int[Tensor, "N T"]


@pytest.mark.parametrize(("layout", "record"), [("left", LeftFeatured), ("right", RightFeatured)])
@given(sizes=lengths, of_response=st.booleans())
def test_features_of_whole_sequences_stay_as_they_are(layout, record, sizes, of_response):
    batch = to_layout(rollouts(*sizes), layout, pad_token_id=PAD)
    feature = torch.rand(batch.response_mask.shape if of_response else batch.input_ids.shape)
    own = validate(Batch(batch, embed=feature, places=batch.input_ids), record)
    trimmed = trim(own[:1])
    validate(trimmed, record)
    assert torch.equal(trimmed.embed, feature[:1])
    assert torch.equal(trimmed.places, trimmed.input_ids)
    split = to_layout(own, "split", pad_token_id=PAD)
    assert torch.equal(split.embed, feature)
    with pytest.raises(StructureError, match=r"'(embed|places)': may have a value for each token"):
        trim(Batch(own))


@given(lengths, lengths)
def test_declared_fields_are_padded_on_their_side(one, two):
    parts = [featured(sizes, 3) for sizes in (one, two)]
    for part in parts:
        del part["places"]  # the padding of one with the next is inside of it
    joined = cat(parts, widths="pad", pad_token_id=PAD)
    for part, rows in zip(parts, (joined[: len(parts[0])], joined[len(parts[0]) :]), strict=True):
        assert trim(rows) == trim(part)


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


def test_own_fields_that_are_as_wide_as_the_prompts_are_padded_as_declared_or_as_said():
    def part(before: int, after: int) -> Batch:
        own = {"own": np.ones((1, after)), "saliency": np.ones((1, before))}
        return Batch(rollouts([before], [after]), saliency=torch.ones(1, before), nested=own)

    parts = [part(1, 4), part(3, 2)]
    for name, other in (("saliency", "nested.saliency"), ("nested.saliency", "saliency")):
        text = rf"'{name}': it is as wide as the prompts; widths=\{{'{name.rpartition('.')[2]}': 'left'\}} or 'right'"
        with pytest.raises(StructureError, match=text):
            cat(parts, widths={other: "left"}, pad_token_id=PAD)
    sides = {"saliency": "left", "nested.saliency": "right"}
    joined = cat(parts, widths=sides, pad_token_id=PAD)
    assert joined.saliency.tolist() == [[0, 0, 1], [1, 1, 1]]
    assert joined.nested.saliency.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert joined.nested.own.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    left = cat(parts, widths={**sides, "nested.own": "left"}, pad_token_id=PAD)
    assert left.nested.own.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    whole = [Batch(rollouts([n], [2 * n]), positions=torch.ones(1, 3 * n)) for n in (1, 2)]
    with pytest.raises(StructureError, match="'positions': it is as wide as prompts and responses together; widths="):
        cat(whole, widths="pad", pad_token_id=PAD)


def test_whole_sequences_without_any_padding_do_not_show_their_side():
    parts = [to_layout(rollouts([0], [count]), "right", pad_token_id=PAD) for count in (2, 3)]
    with pytest.raises(StructureError, match=r"attention_mask has no padding; widths=\{'\w+': 'right'\}"):
        cat(parts, widths="pad", pad_token_id=PAD)


def test_other_kinds_are_left_as_they_are():
    ragged = to_layout(rollouts([1, 2], [3, 1]), "ragged")
    parts = [
        Batch(
            tokens=ragged.tokens[rows], text=objects(["a"]), none=None, x=torch.ones(1, 1 + rows.start),
            reserved=Batch(),
        )
        for rows in (slice(0, 1), slice(1, 2))
    ]  # fmt: skip
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


def test_ids_under_names_of_others_are_padded_with_their_id():
    parts = [
        Batch(
            sequences=torch.ones(1, n).long(), attention_mask=torch.ones(1, n).long(), inner={"turn": np.ones((1, n))}
        )
        for n in (2, 3)
    ]
    sides = dict.fromkeys(("sequences", "attention_mask", "inner.turn"), "right")
    message = r"is for token ids \(input_ids, .*none of these is there; sequences would be padded with zeros: "
    for nine in (9, np.int64(9)):
        with pytest.raises(SettingError, match=message + r"pass pad_token_id=\{'sequences': 9\}, or leave it out"):
            cat(parts, widths=sides, pad_token_id=nine)
        with pytest.raises(SettingError, match="none of these is there"):
            cat([Batch(part, ids=np.arange(1)) for part in parts], widths=sides, pad_token_id=nine)
    for odd in ("9", 9.0, {"sequences": None}):
        with pytest.raises(SettingError, match="must be a whole number, or a dict of these, got"):
            cat(parts, widths=sides, pad_token_id=odd)
    joined = cat(parts, widths=sides, pad_token_id={"sequences": 9, "inner.turn": 7})
    assert joined.sequences.tolist() == [[1, 1, 9], [1, 1, 1]]
    assert joined.attention_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert joined.inner.turn.tolist() == [[1, 1, 7], [1, 1, 1]]
    for zero in (None, 0):
        assert cat(parts, widths=sides, pad_token_id=zero).sequences.tolist() == [[1, 1, 0], [1, 1, 1]]
    with pytest.raises(SettingError, match="pad_token_id= names 'sequence', which no batch has; did you mean 'seq"):
        cat(parts, widths=sides, pad_token_id={"sequence": 9})
