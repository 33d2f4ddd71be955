"""TRL's own trainers on typed batches: the programs of docs/trl.md, and what TRL does with the dicts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl import DPOTrainer, GRPOTrainer
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict

import dpo
import grpo
import tiny
from tests.bridges.test_trl import inputs
from typedbatch import Batch, objects
from typedbatch.bridges.trl import from_trl, pairs_from_trl, pairs_to_trl, to_trl
from typedbatch.posttraining import Pairs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # transformers, of names that TRL uses
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Compared(grpo.TypedGRPOTrainer):
    seen: list[tuple[float, float]]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        ours = super()._compute_loss(model, inputs)
        batch = from_trl(inputs, into=grpo.LossInputs)
        theirs = GRPOTrainer._compute_loss(self, model, to_trl(batch))  # noqa: SLF001  # the one that a user overrides
        self.seen.append((ours.item(), theirs.item()))
        return ours


def test_grpo_trains_and_its_loss_is_that_of_trl():
    trainer = grpo.make_trainer(Compared)
    trainer.seen = []
    trainer.train()
    assert len(trainer.seen) == 3
    for ours, theirs in trainer.seen:
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("settings", [{}, {"precompute_ref_log_probs": True}])
def test_dpo_trains_on_pairs(settings):
    trainer = dpo.make_trainer(dpo.TypedDPOTrainer, dpo.CollatePairs(tiny.PAD), **settings)
    trainer.train()
    losses = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    plain = dpo.make_trainer(DPOTrainer, **settings)
    plain.train()
    assert losses == [one["loss"] for one in plain.state.log_history if "loss" in one]
    assert len(losses) == 3


def test_pairs_of_trls_own_collator_come_back_as_they_were():
    trainer = dpo.make_trainer(DPOTrainer)
    for theirs in trainer.get_train_dataloader():
        pairs = pairs_from_trl(theirs, pad_token_id=tiny.PAD)
        assert type(pairs) is Pairs
        ours = pairs_to_trl(pairs, pad_token_id=tiny.PAD)
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            assert torch.equal(ours[name], tensor), name
            assert ours[name].dtype == tensor.dtype


def test_a_column_of_objects_may_come_first():
    """TRL takes the number of rows from the first value, which must not be a list."""
    batch = from_trl(inputs())
    first: Any = Batch({"uid": objects(["a", "b"]), **batch}, meta=batch.meta)
    given = to_trl(first)
    assert next(iter(given)) != "uid"
    parts = split_tensor_dict(shuffle_sequence_dict(given), 2)
    assert sorted(part["uid"][0] for part in parts) == ["a", "b"]
    assert [len(part["completion_ids"]) for part in parts] == [1, 1]


def test_a_ratio_for_each_sample_is_one_again():
    """The loss "vespo" adds up the logarithms of a row, and zeros at padded tokens would make it vanish."""
    ratio = torch.tensor([[0.5], [2.0]])
    theirs = inputs(importance_sampling_ratio=ratio)
    assert torch.equal(to_trl(from_trl(theirs))["importance_sampling_ratio"], ratio)
