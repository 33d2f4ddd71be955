"""Functions that stand for what is easy to get wrong: log-probabilities, sums of losses, micro-batches, pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tests.posttraining.test_layouts import LAYOUTS, PAD, lengths, rollouts
from typedbatch import Batch, objects, validate
from typedbatch.errors import LeafError, MissingFieldError, SettingError, SizeError, StructureError
from typedbatch.posttraining import (
    Pairs,
    Sequences,
    aggregate,
    map_tokens,
    micro_batches,
    pairs_of,
    to_layout,
    token_logp,
    trim,
)
from typedbatch.rows import groups

WORDS = 100
PADDED = ("split", "left", "right")


class Causal(nn.Module):
    """The logits behind a token depend on the sum of the tokens of its sequence so far, and on its position."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(7, WORDS))

    def forward(
        self, *, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor, use_cache: bool
    ) -> Tensor:
        assert use_cache is False
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        total = (input_ids * mask).cumsum(1)
        start = torch.where(position_ids == 0, total - input_ids * mask, 0).cummax(1).values
        return self.table[(total - start + 3 * position_ids) % 7]


def small(prompts: list[int], responses: list[int]) -> Any:
    """Rollouts with ids of the vocabulary."""
    batch: Any = rollouts(prompts, responses)
    batch.prompt_ids, batch.response_ids = batch.prompt_ids % 90, batch.response_ids % 90
    return batch


def by_hand(model: Any, prompt: Tensor, response: Tensor, temperature: float) -> list[float]:
    ids = torch.cat([prompt, response])[None]
    logits = model(input_ids=ids, attention_mask=None, position_ids=torch.arange(ids.shape[1])[None], use_cache=False)
    logp = (logits[0] / temperature).log_softmax(-1)
    return [logp[len(prompt) + t - 1, token].item() for t, token in enumerate(response)]


with_prompts = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 4), min_size=n, max_size=n),
        st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any),
    )
)


@given(with_prompts, st.sampled_from([*LAYOUTS]), st.sampled_from([0.5, 1.0]))
def test_each_token_has_its_own_in_every_layout(sizes, layout, temperature):
    model, batch = Causal(), small(*sizes)
    found = token_logp(model, to_layout(batch, layout, pad_token_id=PAD % WORDS), temperature=temperature)
    expected = [
        value
        for row in range(len(batch))
        for value in by_hand(
            model,
            batch.prompt_ids[row][batch.prompt_mask[row]],
            batch.response_ids[row][batch.response_mask[row]],
            temperature,
        )
    ]
    mask = to_layout(batch, layout, pad_token_id=PAD % WORDS)
    of_response = mask.tokens.values.response_mask if layout == "ragged" else mask.response_mask
    assert found.shape == of_response.shape
    assert found[of_response].tolist() == pytest.approx(expected, abs=1e-5)
    assert (found[~of_response] == 0).all()


def test_gradients_flow_and_half_precision_is_widened():
    model = Causal().to(torch.bfloat16)
    found = token_logp(model, small([2, 1], [3, 1]), temperature=1.0)
    assert found.dtype == torch.float32
    found.sum().backward()
    assert model.table.grad is not None


def test_the_temperature_is_that_of_the_meta_or_must_be_given():
    model, batch = Causal(), small([2, 1], [3, 1])
    assert torch.equal(token_logp(model, batch), token_logp(model, batch, temperature=0.7))
    assert not torch.equal(token_logp(model, batch), token_logp(model, batch, temperature=1.0))
    with pytest.raises(SettingError, match="needs the temperature of the sampler; pass temperature= or set it"):
        token_logp(model, Batch(batch, meta={}))
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="a temperature is a number above 0"):
            token_logp(model, batch, temperature=wrong)


def test_what_no_model_can_say_is_refused():
    batch = small([2, 1], [3, 1])
    with pytest.raises(StructureError, match=r"the model must return logits of shape \[2, 5, 'V'\], got \[2, 5\]"):
        token_logp(lambda **given: given["input_ids"], batch)
    with pytest.raises(StructureError, match="got str"):
        token_logp(lambda **given: "no", batch)
    with pytest.raises(StructureError, match=r"the token at \[1, 0\] has none before it"):
        token_logp(Causal(), small([2, 0], [3, 1]))
    with pytest.raises(StructureError, match=r"the token at \[0\] has none before it"):
        token_logp(Causal(), to_layout(small([0, 2], [1, 2]), "packed"))
    with pytest.raises(MissingFieldError):
        token_logp(Causal(), Batch(x=torch.ones(2)), temperature=1.0)


def test_masks_and_ids_that_do_not_fit_are_refused_by_name():
    batch = small([2, 1], [3, 1])
    right: Any = to_layout(batch, "right", pad_token_id=0)
    packed: Any = to_layout(batch, "packed")
    past = right.response_mask.clone()
    past[1, 3] = True
    ids = batch.response_ids
    for rows, changed, error, text in (
        (right, {"response_mask": past}, StructureError, r"'response_mask': it is True at \[1, 3\], where no token is"),
        (right, {"response_mask": torch.ones(2, 2).bool()}, StructureError, "where no token is"),
        (right, {"response_mask": torch.ones(2, 7).bool()}, StructureError, "must have the rows of input_ids"),
        (batch, {"response_ids": ids.numpy()}, LeafError, "'response_ids': ids of tokens must be a tensor of whole"),
        (batch, {"response_ids": ids.float()}, LeafError, "'response_ids': ids of tokens must be a tensor of whole"),
        (batch, {"response_ids": ids[:, :2]}, StructureError, r"and the shape of the mask, \[2, 3\], got \[2, 2\]"),
        (batch, {"prompt_ids": ids[:1], "prompt_mask": ids[:1] > 0}, StructureError, "2 rows, but there are 1 prompts"),
        (packed, {"input_ids": packed.input_ids[None]}, StructureError, "'input_ids': ids must have 1 dimension, and"),
        (
            packed,
            {"cu_seqlens": np.array([0, 5, 6])},
            StructureError,
            "'cu_seqlens': it must grow to the number of tok",
        ),
        (packed, {"cu_seqlens": [0, 9, 7]}, StructureError, "'cu_seqlens': it must grow to the number of tokens, 7"),
    ):
        with pytest.raises(error, match=text):
            token_logp(Causal(), Batch(rows, **changed), temperature=1.0)
    listed = token_logp(Causal(), Batch(packed, cu_seqlens=packed.cu_seqlens.tolist()), temperature=1.0)
    assert torch.equal(listed, token_logp(Causal(), packed, temperature=1.0))


def test_sums_of_many_tokens_and_of_half_precision():
    losses = torch.full((100_000,), 0.1)
    everywhere = torch.ones_like(losses).bool()
    assert aggregate(losses, everywhere, "sequence", lengths=[100_000]).item() == pytest.approx(0.1, rel=1e-6)
    half = aggregate(losses.half() + 4, everywhere)
    assert (half.dtype, half.item()) == (torch.float32, pytest.approx(4.1, rel=1e-3))


def test_three_ways_to_add_up():
    losses, mask = torch.tensor([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]]), torch.tensor([[1, 1, 0], [1, 0, 0]]).bool()
    assert aggregate(losses, mask).item() == pytest.approx(7 / 3)
    assert aggregate(losses, mask, "sequence").item() == pytest.approx((1.5 + 4) / 2)
    assert aggregate(losses, mask, "dr_grpo", total=2 * 3).item() == pytest.approx(7 / 6)
    assert aggregate(losses, mask, total=10).item() == pytest.approx(0.7)
    assert aggregate(losses, mask, total=torch.tensor(10)).item() == pytest.approx(0.7)
    flat = aggregate(losses.reshape(-1), mask.reshape(-1), "sequence", lengths=[3, 3])
    assert flat.item() == pytest.approx((1.5 + 4) / 2)


@pytest.mark.parametrize("how", ["token", "sequence"])
def test_without_a_counting_token_the_loss_is_zero_and_has_a_gradient(how):
    losses = torch.full((2, 3), torch.inf, requires_grad=True)
    total = aggregate(losses, torch.zeros(2, 3).bool(), how)
    total.backward()
    assert total.item() == 0
    assert (losses.grad == 0).all()


def test_what_torch_would_repeat_is_refused():
    with pytest.raises(StructureError, match=r"losses are \[4\], but the mask is \[4, 1\]"):
        aggregate(torch.ones(4), torch.ones(4, 1).bool())
    with pytest.raises(StructureError, match="may only have values 0 and 1"):
        aggregate(torch.ones(4), torch.full((4,), 0.5))
    with pytest.raises(SettingError, match="'dr_grpo' divides by a constant; pass total="):
        aggregate(torch.ones(4), torch.ones(4).bool(), "dr_grpo")
    with pytest.raises(SettingError, match="how= must be 'token', 'sequence' or 'dr_grpo', got 'mean'"):
        aggregate(torch.ones(4), torch.ones(4).bool(), "mean")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="needs lengths="):
        aggregate(torch.ones(4), torch.ones(4).bool(), "sequence")
    with pytest.raises(StructureError, match="lengths sum up to 3, but there are 4 tokens"):
        aggregate(torch.ones(4), torch.ones(4).bool(), "sequence", lengths=[3])
    with pytest.raises(LeafError, match="takes a tensor of losses"):
        aggregate(np.ones(4), torch.ones(4).bool())  # type: ignore[arg-type]


@given(lengths, st.sampled_from(PADDED), st.integers(10, 30), st.sampled_from(["token", "sequence"]))
def test_losses_of_the_parts_add_up_to_that_of_the_whole(sizes, layout, tokens, how):
    batch = to_layout(rollouts(*sizes), layout, pad_token_id=PAD)
    whole = aggregate(batch.advantages, batch.loss_mask, how)
    parts = [*micro_batches(batch, tokens)]
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == [*range(len(batch))]
    found = sum(
        aggregate(
            part.batch.advantages,
            part.batch.loss_mask,
            how,
            total=part.total_tokens if how == "token" else part.total_rows,
        )
        for part in parts
    )
    assert float(found) == pytest.approx(whole.item(), rel=1e-4)
    for part in parts:
        assert type(part.batch) is type(batch)
        assert part.batch.meta == batch.meta
        present = part.batch.attention_mask if layout != "split" else part.batch.response_mask
        assert present.any(0).all()


@given(lengths, st.sampled_from(PADDED), st.integers(10, 30))
def test_results_come_in_the_order_of_the_rows(sizes, layout, tokens):
    batch = to_layout(rollouts(*sizes), layout, pad_token_id=PAD)
    assert torch.equal(map_tokens(batch, tokens, lambda part: part.advantages), batch.advantages)
    assert torch.equal(map_tokens(batch, tokens, lambda part: part.rewards), batch.rewards)
    wide = map_tokens(batch, tokens, lambda part: part.advantages[..., None].repeat(1, 1, 2))
    assert torch.equal(wide, batch.advantages[..., None].repeat(1, 1, 2))


def test_gradients_flow_through_the_parts():
    batch, model = small([2, 1, 3], [3, 1, 5]), Causal()
    parts = map_tokens(batch, 8, lambda part: token_logp(model, part))
    assert torch.allclose(parts, token_logp(model, batch))
    parts.sum().backward()
    in_parts = model.table.grad
    model.table.grad = None
    token_logp(model, batch).sum().backward()
    assert torch.allclose(in_parts, model.table.grad, atol=1e-5)


def test_parts_that_cannot_be_are_refused():
    batch = small([2, 1], [3, 1])
    with pytest.raises(SizeError, match="row 0 has 5 tokens, more than a bin of 4 can hold"):
        map_tokens(batch, 4, lambda part: part.advantages)
    with pytest.raises(StructureError, match=r"the function must return \[2\] or \[2, 3\], got \[2, 1\]"):
        map_tokens(batch, 9, lambda part: part.rewards[:, None])
    with pytest.raises(LeafError, match="a function that returns a tensor, got NoneType"):
        map_tokens(batch, 9, lambda part: None)
    with pytest.raises(StructureError, match="the layout 'packed' is not cut by columns"):
        [*micro_batches(to_layout(batch, "packed"), 9)]
    del batch["loss_mask"]
    with pytest.raises(MissingFieldError, match="loss_mask"):
        [*micro_batches(batch, 9)]
    assert map_tokens(rollouts([1], [2])[:0], 9, lambda part: part.advantages).shape == (0, 2)


def test_sides_of_pairs_are_sequences_with_masks_of_their_own():
    pairs = Pairs(
        prompt_ids=torch.ones(2, 1).long(), prompt_mask=torch.ones(2, 1).bool(),
        chosen_ids=torch.tensor([[1, 2], [3, 4]]), chosen_mask=torch.ones(2, 2).bool(),
        rejected_ids=torch.tensor([[5, 6, 7], [8, 9, 1]]), rejected_mask=torch.tensor([[1, 1, 1], [1, 0, 0]]).bool(),
    )  # fmt: skip
    assert type(pairs.chosen) is Sequences
    assert validate(pairs.rejected, Sequences).response_ids.data_ptr() == pairs.rejected_ids.data_ptr()
    assert token_logp(Causal(), pairs.chosen).shape == (2, 2)
    assert (token_logp(Causal(), pairs.rejected) != 0).tolist() == pairs.rejected_mask.tolist()


def pairs_like(prompts: list[int], chosen: list[int], rejected: list[int]) -> Any:
    """Pairs whose sides are the responses of two batches to the same prompts."""
    one, other = small(prompts, chosen), small(prompts, rejected)
    pairs: Any = Pairs(
        prompt_ids=one.prompt_ids,
        prompt_mask=one.prompt_mask,
        chosen_ids=one.response_ids,
        chosen_mask=one.response_mask,
        rejected_ids=other.response_ids.flip(0),
        rejected_mask=other.response_mask.flip(0),
    )
    pairs["reward_gap"] = torch.arange(len(prompts)).float()
    pairs.meta["temperature"] = 0.7
    return pairs


def test_sides_of_pairs_have_log_probabilities_of_the_model_and_not_of_the_sampler():
    pairs, model = pairs_like([2, 1], [3, 1], [1, 2]), Causal()
    assert (pairs.chosen.meta, pairs.both.meta, pairs.meta) == (
        {"temperature": 1.0}, {"temperature": 1.0}, {"temperature": 0.7},
    )  # fmt: skip
    assert torch.equal(token_logp(model, pairs.chosen), token_logp(model, pairs.chosen, temperature=1.0))
    pairs.meta.clear()
    assert token_logp(model, pairs.rejected).shape == (2, 2)


sides = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 4), min_size=n, max_size=n),
        *[st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any) for _ in range(2)],
    )
)


@given(sides, st.sampled_from(["split", "packed", "left"]))
def test_both_sides_of_pairs_enter_a_model_at_once(sizes, layout):
    pairs, model = pairs_like(*sizes), Causal()
    validate(pairs.both, Sequences)
    found = token_logp(model, pairs.both).sum(1).chunk(2)
    for together, side in zip(found, (pairs.chosen, pairs.rejected), strict=True):
        assert torch.allclose(together, token_logp(model, side).sum(1), atol=1e-5)
    if layout != "split":
        rows = to_layout(pairs.both, layout, pad_token_id=PAD % WORDS)
        assert token_logp(model, rows).sum().item() == pytest.approx(torch.cat(found).sum().item(), abs=1e-4)


@given(sides, st.integers(14, 40), st.sampled_from([1, 3]))
def test_pairs_are_cut_and_trimmed_with_both_sides(sizes, tokens, multiple_of):
    pairs, model = pairs_like(*sizes), Causal()

    def loss(part: Pairs) -> Tensor:
        chosen, rejected = token_logp(model, part.both).sum(1).chunk(2)
        return nn.functional.softplus(rejected - chosen)

    expected = loss(pairs)
    parts = [*micro_batches(pairs, tokens + 5)]
    assert sorted(row for part in parts for row in part.rows.tolist()) == [*range(len(pairs))]
    for part in parts:
        assert (part.total_rows, part.total_tokens) == (len(pairs), int(pairs.chosen_mask.sum()))
        validate(part.batch, Pairs)
        assert torch.allclose(loss(part.batch), expected[part.rows], atol=1e-5)
        assert part.batch["reward_gap"].tolist() == part.rows.tolist()
        masks = (part.batch.prompt_mask, part.batch.chosen_mask, part.batch.rejected_mask)
        assert all(mask.any(0).all() for mask in masks)
        assert 2 * masks[0].sum() + masks[1].sum() + masks[2].sum() <= tokens + 5
    assert torch.allclose(map_tokens(pairs, tokens + 5, loss), expected, atol=1e-5)
    two = map_tokens(pairs, tokens + 5, lambda part: torch.stack(token_logp(model, part.both).sum(1).chunk(2), 1))
    assert torch.allclose(two, torch.stack(token_logp(model, pairs.both).sum(1).chunk(2), 1), atol=1e-5)
    wide = trim(pairs, multiple_of=multiple_of)
    assert torch.allclose(loss(wide), expected, atol=1e-5)
    assert type(wide) is Pairs


def test_fields_of_pairs_are_of_the_side_that_is_declared_or_named():
    pairs: Any = pairs_like([2, 2], [3, 1], [1, 3])
    pairs["chosen_loss_mask"] = pairs.chosen_mask
    with pytest.raises(StructureError, match="'chosen_loss_mask': may have a value for each token"):
        trim(pairs[1:])
    assert trim(pairs[1:], per_token=["chosen_loss_mask"]).chosen_loss_mask.shape == (1, 1)
    pairs["advantages"] = torch.zeros(2, 3)
    with pytest.raises(StructureError, match="'advantages': may have a value for each token"):
        trim(pairs[1:], per_token=["chosen_loss_mask"])


class MaskedPairs(Pairs):
    chosen_loss_mask: Bool[Tensor, "N C"]
    rejected_scores: Float[Tensor, "N D"]


def test_declared_fields_of_a_side_are_trimmed_with_it():
    pairs = pairs_like([2, 1], [3, 1], [2, 2])
    del pairs["reward_gap"]
    masked = MaskedPairs(**pairs, chosen_loss_mask=pairs.chosen_mask, rejected_scores=torch.ones(2, 2))
    assert trim(masked[1:]).chosen_loss_mask.shape == (1, 1)
    assert trim(masked[1:]).rejected_scores.shape == (1, 2)


class EncodedPairs(Pairs):
    emb: Float[Tensor, "N E"]


def test_declared_features_that_are_as_wide_as_a_side_stay_as_they_are():
    pairs = pairs_like([2, 1], [3, 1], [2, 2])
    del pairs["reward_gap"]
    for width in (2, 3, 5):
        assert trim(EncodedPairs(**pairs, emb=torch.ones(2, width))[1:]).emb.shape == (1, width)


def test_a_field_of_tokens_without_a_side_is_refused():
    pairs: Any = pairs_like([2, 1], [3, 1], [3, 2])
    pairs["extra"] = torch.zeros(2, 3)
    with pytest.raises(
        StructureError, match="'extra': a field of tokens of pairs has a name that begins with prompt_, ch"
    ):
        trim(pairs, per_token=["extra"])
    pairs.chosen_mask = torch.ones(2, 5).bool()
    with pytest.raises(StructureError, match=r"'chosen_ids': ids are \[2, 3\], but their mask is \[2, 5\]"):
        _ = pairs.both


def test_what_is_not_for_pairs_names_the_way():
    pairs = pairs_like([2, 1], [3, 1], [1, 2])
    way = r"a row of pairs has two responses; pass pairs.chosen, pairs.rejected, or pairs.both, all in 2 \* N rows"
    for call in (lambda: token_logp(Causal(), pairs, temperature=1.0), lambda: to_layout(pairs, "packed")):
        with pytest.raises(StructureError, match=way):
            call()
    with pytest.raises(StructureError, match=r"the function must return \[2\] or \[2, '...'\], got \[3\]"):
        map_tokens(pairs, 20, lambda part: torch.ones(3))
    with pytest.raises(
        StructureError, match=r"the same shape for all rows, got \[1, 1\] after \[2, 3\] for all of them"
    ):
        map_tokens(pairs, 9, lambda part: token_logp(Causal(), part.both)[: len(part)])
    pairs.rejected_mask = torch.tensor([[True, False], [False, True]])
    with pytest.raises(StructureError, match="'rejected_mask': the tokens of a row must be contiguous and begin at"):
        trim(pairs)
    pairs.rejected_mask = torch.ones(3, 2).bool()
    with pytest.raises(StructureError, match="'rejected_ids': it must have the shape of its mask"):
        [*micro_batches(pairs, 20)]


@given(with_prompts, st.sampled_from([*LAYOUTS]))
def test_other_tokens_have_the_log_probabilities_that_they_would_have(sizes, layout):
    model, batch = Causal(), small(*sizes)
    rows = to_layout(batch, layout, pad_token_id=PAD % WORDS)
    inner = rows.tokens.values if layout == "ragged" else rows
    own = batch.response_ids if layout == "split" else inner.input_ids
    own = own[:, own.shape[1] - inner.response_mask.shape[1] :] if layout == "left" else own
    asked = torch.stack([own, (own + 1) % WORDS, torch.full_like(own, 5)], -1)
    found = token_logp(model, rows, ids=asked)
    assert found.shape == asked.shape
    assert torch.equal(found[..., 0], token_logp(model, rows))
    every = token_logp(model, rows, ids=torch.arange(WORDS).expand(*own.shape, WORDS))
    there = inner.response_mask
    assert torch.allclose(every.exp().sum(-1)[there], torch.ones(int(there.sum())), atol=1e-5)
    assert torch.equal(every.gather(-1, asked)[there], found[there])
    assert not found[~there].any()
    asked[~there] = -100  # as padding may be
    assert torch.equal(token_logp(model, rows, ids=asked), found)


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        (torch.ones(2, 3, 2).bool(), LeafError, "ids= must be a tensor of whole numbers, got torch bool"),
        (np.zeros((2, 3, 2), int), LeafError, "ids= must be a tensor of whole numbers, got i64"),
        (torch.zeros(2, 3, 2), LeafError, "ids= must be a tensor of whole numbers, got torch f32"),
        ([[[1]]], LeafError, "ids= must be a tensor of whole numbers, got list"),
        (torch.zeros(2, 3).long(), StructureError, r"ids= must be \[2, 3, 'K'\], got \[2, 3\]"),
        (torch.zeros(2, 4, 2).long(), StructureError, r"ids= must be \[2, 3, 'K'\], got \[2, 4, 2\]"),
        (torch.full((2, 3, 2), WORDS), StructureError, f"a token of ids= has the id {WORDS}, but the model has logits"),
        (torch.full((2, 3, 2), -1), StructureError, "a token of ids= has the id -1, but"),
    ],
)
def test_other_tokens_that_are_not_there_are_refused(ids, error, text):
    with pytest.raises(error, match=text):
        token_logp(Causal(), small([2, 1], [3, 1]), ids=ids)


@pytest.mark.parametrize("scale", [1, 30])
def test_the_exact_way_is_log_softmax_and_the_other_one_differs_by_rounding(scale):
    torch.manual_seed(0)
    logits = (2 * torch.rand(4, 21, 5000) - 1) * scale
    batch = small([5] * 4, [16] * 4)
    for temperature in (1.0, 0.7):

        def model(**given: Any) -> Tensor:
            return logits

        expected = (logits[:, 4:-1] / temperature).log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]
        exact = token_logp(model, batch, temperature=temperature, exact=True)
        assert torch.equal(exact, torch.where(batch.response_mask, expected, 0))
        fast = token_logp(model, batch, temperature=temperature)
        assert not torch.equal(fast, exact)
        assert (fast - exact).abs().max() <= 1e-5


def test_the_best_and_the_worst_of_each_group():
    batch = Batch(uid=objects(["a", "b", "a", "b", "c", "d", "d"]))
    by_prompt = groups(batch, "uid")
    rewards = torch.tensor([1.0, 5.0, 3.0, 2.0, 7.0, 4.0, 4.0])
    assert by_prompt.best(rewards).tolist() == [2, 1, 4, 5]
    better, worse = by_prompt.pairs(rewards)
    assert (better.tolist(), worse.tolist()) == ([2, 1], [0, 3])
    better, worse = by_prompt.pairs(rewards.numpy(), margin=2.0)
    assert (better.tolist(), worse.tolist()) == ([1], [3])
    nan = torch.tensor([torch.nan, 5.0, 3.0, torch.nan, torch.nan, 4.0, 4.0])
    assert by_prompt.best(nan).tolist() == [2, 1, 4, 5]
    with pytest.raises(StructureError, match="one value for each row"):
        by_prompt.best(torch.ones(7, 2))
    with pytest.raises(StructureError, match="the groups have 7 rows"):
        by_prompt.best(torch.ones(6))


def test_pairs_of_rollouts():
    batch = rollouts([3, 3, 2, 2], [4, 1, 2, 3])
    batch.prompt_ids[:] = 7
    better, worse = groups(batch, "uid").pairs(batch.rewards)
    pairs = pairs_of(batch, better, worse)
    validate(pairs, Pairs)
    assert pairs.meta == {"temperature": 0.7}
    assert pairs.chosen_ids.tolist() == [batch.response_ids[1, :3].tolist(), batch.response_ids[3, :3].tolist()]
    assert pairs.rejected_mask.sum(1).tolist() == [4, 2]
    with pytest.raises(StructureError, match="'uid': rows 0 and 2 are of other prompts, 'p0' and 'p1'"):
        pairs_of(batch, [0], [2])
    with pytest.raises(StructureError, match="got 2 and 1 row numbers"):
        pairs_of(batch, [0, 1], [2])
    with pytest.raises(StructureError, match="row 1 is the better and the worse one of a pair"):
        pairs_of(batch, [0, 1], [1, 1])
    batch.prompt_ids[1, 1] = 8
    with pytest.raises(StructureError, match="'prompt_ids': rows 1 and 0 have one uid, but prompts that differ"):
        pairs_of(batch, better, worse)


@pytest.mark.parametrize("layout", ["split", "left", "right", "packed"])
@pytest.mark.parametrize("pad", [-100, WORDS, 10**6])
def test_ids_of_padding_may_be_any_and_those_of_tokens_may_not(layout, pad):
    class Embeds(Causal):
        """A model that fails for ids of no token, as an embedding does."""

        def __call__(self, input_ids, **given):
            assert (input_ids >= 0).all()
            return super().__call__(input_ids=input_ids % WORDS, **given)

    batch = small([2, 1], [3, 1])
    expected = token_logp(Embeds(), to_layout(batch, layout, pad_token_id=0), temperature=1.0)
    rows = Batch(to_layout(batch, layout, pad_token_id=pad))
    assert torch.equal(token_logp(Embeds(), rows, temperature=1.0), expected)
    name = "response_ids" if layout == "split" else "input_ids"
    where = {"split": "0, 0", "left": "0, 2", "right": "0, 2", "packed": "2"}[layout]
    for wrong, text in (
        (-100, rf"'{name}': the token at \[{where}\] has a negative id"),
        (WORDS, f"has the id {WORDS}, but"),
    ):
        ids = rows[name].clone()
        ids[tuple(map(int, where.split(", ")))] = wrong
        with pytest.raises(StructureError, match=text):
            token_logp(Embeds(), Batch(rows, **{name: ids}), temperature=1.0)


@pytest.mark.parametrize("wrong", [torch.ones(3), "warm", [1.0, 2.0], torch.tensor(-1.0), float("nan")])
def test_a_temperature_is_one_number(wrong):
    with pytest.raises(SettingError, match="a temperature is a number above 0, got"):
        token_logp(Causal(), small([1], [1]), temperature=wrong)


@pytest.mark.parametrize("form", [float, torch.tensor])
@pytest.mark.parametrize("how", ["token", "sequence", "dr_grpo"])
def test_totals_are_one_number_from_0_up(how, form):
    losses, mask = torch.ones(2, 2), torch.ones(2, 2).bool()
    assert aggregate(losses, mask, how, total=form(0.5)) == 2 * aggregate(losses, mask, how, total=form(1.0))
    assert aggregate(losses, ~mask, how, total=form(0.0)) == 0  # as that of a batch in which no token counts
    with pytest.raises(SettingError, match="total= must be one number above 0, as there are tokens that count, got"):
        aggregate(losses, mask, how, total=form(0.0))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="total= must be one number from 0 up, got"):
            aggregate(losses, mask, how, total=form(wrong))
    with pytest.raises(SettingError, match="total= must be one number from 0 up, got"):
        aggregate(losses, mask, how, total=torch.ones(2))
    with pytest.raises(StructureError, match=r"losses have no dimension; pass one for each token"):
        aggregate(losses[0, 0], mask[0, 0], how, total=1)
