"""Rules of the stages: mistakes that have the right names and shapes, and what passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.posttraining.test_layouts import rollouts
from typedbatch import BatchRecord, checking, objects, validate
from typedbatch.errors import SchemaError
from typedbatch.posttraining import Ready, logp_close, same_in_groups, sampled_by


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
