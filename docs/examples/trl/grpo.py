"""GRPOTrainer of TRL 1.16 whose batches are typed records: ``python docs/examples/trl/grpo.py``."""

from __future__ import annotations

import tempfile
from typing import Any, Protocol, TypedDict

import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer
from typing_extensions import override

import tiny
from typedbatch import extend, validate
from typedbatch.bridges.trl import from_trl, to_trl
from typedbatch.posttraining import PolicyLossProtocol, Ready, SequenceProtocol
from typedbatch.rows import groups
from typedbatch.rules import groups_centered


class Sampled(Ready):
    """Rollouts of a step. Their groups are whole, so their advantages have mean 0."""

    centered = groups_centered("advantages", "uid", mask="loss_mask")


class Counts(TypedDict):
    """Numbers of a step, which TRL gives to each of its minibatches."""

    num_items_in_batch: int


class LossInputs(SequenceProtocol, PolicyLossProtocol, Protocol):
    """Fields that the loss reads of a minibatch. TRL has shuffled the rows, so groups are no longer whole."""

    @property
    @override
    def meta(self) -> Counts: ...


# begin of the trainer
class TypedGRPOTrainer(GRPOTrainer):
    """A trainer with advantages and a loss of its own."""

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        """Keep the rewards, which are not in the dict for the loss. They are those of all processes."""
        by_function: Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        first = self.accelerator.process_index * len(prompts)
        weighted = (by_function * self.reward_weights.to(by_function.device)).nansum(1)
        self._rewards = weighted[first : first + len(prompts)]
        return by_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        uid = [row["prompt"] for row in inputs]
        output = super()._generate_and_score_completions(inputs)
        batch = from_trl({**output, "uid": uid, "rewards": self._rewards}, into=Sampled)
        validate(batch, Sampled, level="values")
        by_prompt = groups(batch, "uid", size=self.num_generations)
        advantages = (batch.rewards - by_prompt.mean(batch.rewards))[:, None] * batch.response_mask  # as in Dr. GRPO
        return to_trl(extend(batch, Sampled, advantages=advantages))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        batch = from_trl(inputs, into=LossInputs)
        logp = self._logp(model, batch)
        ratio = (logp - batch.old_logp).exp()
        loss = -torch.min(ratio * batch.advantages, ratio.clamp(0.8, 1.2) * batch.advantages)
        tokens = batch.meta["num_items_in_batch"] / self.args.steps_per_generation
        return loss[batch.loss_mask].sum() / (tokens * self.current_gradient_accumulation_steps)

    def _logp(self, model: Any, batch: SequenceProtocol) -> Tensor:
        ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
        mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
        logp: Tensor = self._get_per_token_logps_and_entropies(model, ids, mask.long(), batch.response_ids.shape[1])[0]
        return logp


# end of the trainer


def share_of_small_words(completions: list[str], **_: Any) -> list[float]:
    return [sum(int(word[1:]) < 6 for word in text.split() if word[1:].isdigit()) / 8 for text in completions]


def make_trainer(kind: type[GRPOTrainer], **settings: Any) -> GRPOTrainer:
    prompts = [f"w{i} w{i + 1}" if i % 2 else f"w{i} w{i + 1} w{i + 2}" for i in range(8)]
    args = GRPOConfig(**{
        "output_dir": tempfile.mkdtemp(), "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "seed": 1,
        "max_steps": 3, "per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 8,
        "steps_per_generation": 2,  # With one step for each generation, TRL has no old_per_token_logps.
        "learning_rate": 1e-2, **settings,
    })  # fmt: skip
    return kind(
        model=tiny.model(), processing_class=tiny.tokenizer(), reward_funcs=share_of_small_words, args=args,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
    )  # fmt: skip


if __name__ == "__main__":
    make_trainer(TypedGRPOTrainer).train()
