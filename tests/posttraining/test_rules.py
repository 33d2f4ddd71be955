"""Rules of the stages: mistakes that have the right names and shapes, and what passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.posttraining.test_layouts import rollouts
from typedbatch import BatchRecord, checking, objects, validate
from typedbatch.errors import DeclarationError, SchemaError, SettingError
from typedbatch.posttraining import (
    Ready,
    Rollouts,
    kl_below,
    logp_close,
    logp_of_mask,
    same_in_groups,
    sampled_by,
    within,
)
from typedbatch.schema import schema_of
from typedbatch.testing import example


def sampled(rows: int = 4, tokens: int = 12) -> Ready:
    """Rollouts with log-probabilities of the sampler, of which those of the trainer differ by its numerics."""
    batch: Any = rollouts([2] * rows, [tokens] * rows)
    torch.manual_seed(0)
    logp = -torch.rand(rows, tokens) - 0.5
    batch.rollout_logp = logp * batch.loss_mask
    batch.old_logp = logp + 0.01 * torch.randn(rows, tokens)
    return batch


def broken(batch: Any, into: Any = Ready) -> str:
    with pytest.raises(SchemaError) as raised:
        validate(batch, into, level="values")
    return str(raised.value)


def test_right_rollouts_pass():
    validate(sampled(), Ready, level="values")
    with checking("values", first=2):
        validate(sampled(), Ready)


def test_a_loss_mask_outside_of_the_response():
    batch = sampled()
    batch.response_mask = batch.response_mask.clone()
    batch.response_mask[1, 10:] = False
    assert "not so in 1 of 4 rows: loss_mask is True only where response_mask is, the first at [1]" in broken(batch)


def test_prompts_that_are_padded_on_the_right():
    batch = sampled()
    batch.prompt_mask = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
    assert "not so in 1 of 4 rows: prompt_mask ends at the right edge, the first at [1]" in broken(batch)


def test_a_mask_that_is_shorter_than_the_tokens_or_longer():
    words = "rollout_logp has values where loss_mask counts a token, and 0 elsewhere"
    batch = sampled()
    batch.loss_mask = batch.loss_mask.clone()
    batch.loss_mask[2, 8:] = False
    assert words in broken(batch)
    batch = sampled()
    batch.rollout_logp = batch.rollout_logp.clone()
    batch.rollout_logp[2, 4:] = 0
    assert words in broken(batch)
    certain = sampled()
    certain.rollout_logp = certain.rollout_logp.clone()
    certain.rollout_logp[2, 4:7] = 0  # Tokens may be certain.
    validate(certain, Ready, level="values")


@pytest.mark.parametrize("wrong", [lambda x: x.roll(1, 0), lambda x: x * 2, lambda x: x - 0.5, lambda x: x.roll(1, 1)])
def test_log_probabilities_of_another_model_temperature_row_or_token(wrong):
    batch = sampled()
    batch.old_logp = wrong(batch.old_logp)
    assert "not so: old_logp and rollout_logp differ by at most 0.25 nats in the mean, got " in broken(batch)


class Lenient(Ready):
    logp_is_close = logp_close("old_logp", "rollout_logp", tolerance=5.0)


class Silent(Ready):
    logp_is_close = None


@pytest.mark.parametrize("record", [Lenient, Silent])
def test_a_subclass_exchanges_a_rule(record):
    batch = sampled()
    batch.old_logp = batch.old_logp - 1
    broken(batch)
    validate(record(**batch), record, level="values")


class Asynchronous(Ready):
    logp_is_close = logp_close("old_logp", "rollout_logp", tolerance=0.05, stale=0.5)


def asynchronous(**meta: Any) -> Any:
    batch: Any = Asynchronous(**sampled())
    batch.policy_step = torch.tensor([3, 2, 3, 1])
    batch.old_logp = batch.old_logp - torch.tensor([0.0, 0.4, 0.0, 0.3])[:, None]
    batch.meta = meta
    return batch


def test_rows_of_older_weights_may_differ_more():
    validate(asynchronous(step=3), Asynchronous, level="values")
    words = (
        "not so: old_logp and rollout_logp differ by at most 0.05 nats in the mean, in rows of older weights by 0.5, "
    )
    assert f"{words}got 0.178 nats; most in rows 1 (0.397), 3 (0.299)\n" in broken(asynchronous(), Asynchronous)
    assert "got 0.137 nats over rows of current weights; most in rows 1 (0.397)" in broken(
        asynchronous(step=2), Asynchronous
    )
    cold: Any = asynchronous(step=3)
    cold.old_logp = cold.old_logp * torch.tensor([1.0, 1, 1.2, 1])[:, None]
    assert "over rows of current weights; most in rows 2 (0.172)\n" in broken(cold, Asynchronous)
    late: Any = asynchronous(step=3)
    late.old_logp = late.old_logp - torch.tensor([0.0, 0, 0, 2])[:, None]
    assert "got 1.35 nats over rows of older weights; most in rows 3 (2.3)\n" in broken(late, Asynchronous)
    validate(asynchronous(step=3)[:0], Asynchronous, level="values")
    nothing: Any = asynchronous(step=9)
    nothing.loss_mask, nothing.rollout_logp = nothing.loss_mask & False, nothing.rollout_logp * 0
    validate(nothing, Asynchronous, level="values")


class Near(Ready):
    is_near = kl_below(0.1)


def test_a_policy_that_has_left_its_reference():
    batch: Any = Near(**sampled())
    validate(batch, Near, level="values")  # without a reference there is nothing to compare
    batch.ref_logp = batch.old_logp * batch.loss_mask
    validate(batch, Near, level="values")
    batch.ref_logp = (batch.old_logp - 0.3) * batch.loss_mask  # exp(-0.3) + 0.3 - 1 is 0.041
    validate(batch, Near, level="values")
    batch.ref_logp = (batch.old_logp - torch.tensor([0.0, 1, 0, 2])[:, None]) * batch.loss_mask
    expected = (0 + (np.exp(-1) + 1 - 1) + 0 + (np.exp(-2) + 2 - 1)) / 4
    text = "not so: the KL divergence of old_logp from ref_logp is at most 0.1 nats per token, got "
    assert f"{text}{expected:.3g} nats; most in rows 3 (1.14), 1 (0.368)\n" in broken(batch, Near)
    assert text in broken(Near(**{**batch, "ref_logp": (batch.old_logp + 1) * batch.loss_mask}), Near)
    validate(example(Near), Near, level="values")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            lambda: logp_close("old_logp", "rollout_logp", mask="los_mask"),
            "'los_mask', which is not declared; did you mean 'lo",
        ),
        (lambda: logp_of_mask("old_logp", "lossmask"), "'lossmask', which is not declared; did you mean 'loss_mask'"),
        (lambda: kl_below(0.1, "old_logp", "reflogp"), "'reflogp', which is not declared; did you mean 'ref_logp'"),
        (
            lambda: within("loss_mask", "responsemask"),
            "'responsemask', which is not declared; did you mean 'response_mask'",
        ),
        (
            lambda: sampled_by("step", field="policystep"),
            "'policystep', which is not declared; did you mean 'policy_step'",
        ),
        (
            lambda: logp_close("old_logp", "rollout_logp", stale=1.0, field="policy_steps"),
            "'policy_steps', which is not declared; did you mean 'policy_step'",
        ),
        (lambda: same_in_groups("reward"), "'reward', which is not declared; did you mean 'rewards'"),
    ],
)
def test_a_misspelt_field_of_a_rule_is_an_error_as_the_rule_would_hold_for_ever(made, text):
    with pytest.raises(DeclarationError, match=f"the rule Misspelt.check is about {text}"):
        validate(sampled(), type("Misspelt", (Ready,), {"check": made()}))


class Numbered2(BatchRecord):
    mask_1: torch.Tensor
    masks_2: torch.Tensor

    @property
    def mask_2(self) -> torch.Tensor:
        return self.masks_2

    inside = within("mask_1", "mask_2")  # a property is there
    later = within("mask_1", "mask_3")  # a field of a later stage is like one that the rule names as well


def test_rules_of_properties_and_of_numbered_fields_are_right():
    ones = torch.ones(2, 3).bool()
    validate(Numbered2(mask_1=ones, masks_2=ones), Numbered2, level="values")
    with pytest.raises(SchemaError, match="mask_1 is True only where mask_2 is"):
        validate(Numbered2(mask_1=ones, masks_2=~ones), Numbered2, level="values")


def test_rules_of_fields_that_later_stages_have_are_right():
    class Early(Rollouts):
        close = logp_close("rollout_logp", "old_logp")
        gap = same_in_groups("reward_gap")
        text = same_in_groups("texts")

    batch = sampled()
    validate(Early(**{name: batch[name] for name in schema_names(Early) if name in batch}), Early, level="values")


def schema_names(record: Any) -> list[str]:
    return [field.name for field in schema_of(record).fields]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "much", None, True])
def test_limits_are_numbers_from_0_up(wrong):
    for call in (lambda: kl_below(wrong), lambda: logp_close("a", "b", tolerance=wrong)):
        with pytest.raises(SettingError, match="is a number of nats from 0 up, got"):
            call()
    if wrong is not None:
        with pytest.raises(SettingError, match="a tolerance is a number of nats from 0 up, got"):
            logp_close("a", "b", stale=wrong)


def test_a_difference_that_is_not_a_number_is_large():
    batch: Any = sampled()
    batch.old_logp = torch.full_like(batch.old_logp, torch.inf)
    text = "differ by at most 0.25 nats in the mean, got inf nats; most in rows 0 (inf), 1 (inf), 2 (inf)"
    assert text in broken(
        Unbounded(**{name: batch[name] for name in ("old_logp", "rollout_logp", "loss_mask")}), Unbounded
    )


def test_tokens_of_tools_that_the_mask_counts():
    words = "not so in 1 of 4 rows: rollout_logp has values where loss_mask counts a token, and 0 elsewhere"
    for length, is_right in ((32, False), (31, True)):
        batch: Any = sampled(tokens=100)
        batch.rollout_logp = batch.rollout_logp.clone()
        batch.rollout_logp[2, 20 : 20 + length] = 0
        batch.rollout_logp[2, 60:64] = 0  # two runs of certain tokens are not one
        if is_right:
            validate(batch, Ready, level="values")
        else:
            assert words in broken(batch)


class Unbounded(BatchRecord):
    old_logp: torch.Tensor
    rollout_logp: torch.Tensor
    loss_mask: torch.Tensor
    logp_is_close = logp_close("old_logp", "rollout_logp")


class Versioned(Ready):
    answer: np.ndarray[Any, np.dtype[np.object_]]
    fresh = sampled_by("step")
    one_answer = same_in_groups("answer")


class Late(Versioned):
    fresh = sampled_by("step", lag=1)


def versioned(versions: list[int], answers: list[Any], **meta: Any) -> Any:
    batch = Versioned(**sampled(), answer=objects(answers))
    batch.policy_step = torch.tensor(versions)
    batch.meta = meta
    return batch


def test_rows_of_a_stale_worker():
    right = versioned([3, 3, 3, 3], ["a", "a", "b", "b"], step=3)
    validate(right, Versioned, level="values")
    late = versioned([3, 2, 3, 3], ["a", "a", "b", "b"], step=3)
    assert "not so in 1 of 4 rows: policy_step is meta.step, the first at [1]" in broken(late, Versioned)
    validate(late, Late, level="values")
    later = versioned([4, 1, 3, 3], ["a", "a", "b", "b"], step=3)
    assert "not so in 2 of 4 rows: policy_step is meta.step or at most 1 less" in broken(later, Late)
    validate(versioned([1, 2, 3, 4], ["a", "a", "b", "b"]), Versioned, level="values")


def test_answers_that_were_tiled_and_not_repeated():
    tiled = versioned([3, 3, 3, 3], ["a", "b", "a", "b"], step=3)
    assert "not so in 2 of 4 rows: answer is the same in each group of uid, the first at [1]" in broken(
        tiled, Versioned
    )


class Numbered(BatchRecord):
    uid: torch.Tensor
    answer: torch.Tensor
    one_answer = same_in_groups("answer")


def test_numbers_in_tensors():
    validate(Numbered(uid=torch.tensor([1, 1, 2]), answer=torch.tensor([5, 5, 6])), Numbered, level="values")
    assert "1 of 3 rows" in broken(Numbered(uid=torch.tensor([1, 1, 2]), answer=torch.tensor([5, 4, 6])), Numbered)
