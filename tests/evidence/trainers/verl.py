"""verl at b178a3cd: GRPO's advantages and the loss of ``core_algos.py``, and ``DataParallelPPOActor.update_policy``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.tokens import Config, Model, inputs_of, responses
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

CONFIG = Config(
    use_torch_compile=False, entropy_from_logits_with_chunking=False, ulysses_sequence_parallel_size=1,
    fsdp_config={"dtype": "float32"}, policy_loss={"loss_mode": "vanilla"}, loss_agg_mode="token-mean",
    ppo_mini_batch_size=8, ppo_micro_batch_size_per_gpu=2, ppo_epochs=1, use_dynamic_bsz=False, grad_clip=1.0,
    entropy_coeff=0.0, calculate_entropy=False, use_kl_loss=True, kl_loss_type="low_var_kl", kl_loss_coef=0.01,
    clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0, global_batch_info={},
)  # fmt: skip


class Trainer:
    """An actor, and the parts of its learning."""

    def __init__(self) -> None:
        from verl.workers.actor.dp_actor import DataParallelPPOActor

        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.actor = DataParallelPPOActor(Config(CONFIG), self.model, self.optimizer)

    def update(self, batch: Any, micro: int = 2) -> None:
        """Update the policy, in micro-batches of a size."""
        from verl import DataProto

        ids, mask, positions = inputs_of(batch)
        tensors = {
            "input_ids": ids, "attention_mask": mask, "position_ids": positions, "responses": batch.response_ids,
            "response_mask": batch.loss_mask, "old_log_probs": batch.old_logp, "ref_log_prob": batch.ref_logp,
            "advantages": batch.advantages,
        }  # fmt: skip
        self.actor.config["ppo_micro_batch_size_per_gpu"] = micro
        self.actor.update_policy(DataProto.from_dict(tensors=tensors, meta_info={"temperature": 1.0}))

    def grade_and_update(self, batch: Any) -> None:
        """Compute advantages and update."""
        self.update(Batch(batch, advantages=advantages(batch)))


def advantages(batch: Any) -> Any:
    """Return GRPO's advantages of each token, for the reward at the last one."""
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    last = batch.response_mask.sum(1, keepdim=True) - 1
    per_token = torch.zeros_like(batch.old_logp).scatter(1, last, batch.rewards[:, None])
    return compute_grpo_outcome_advantage(per_token, batch.loss_mask.float(), batch.uid)[0]


def loss(batch: Any) -> Any:
    """Return the loss of the policy."""
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla

    return compute_policy_loss_vanilla(batch.old_logp, batch.logp, batch.advantages, batch.loss_mask, config=CONFIG)[0]


def reports(checkout: Path) -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages, of the loss, and of the update alone and with advantages."""
    stand_in("ray", "transformers", "peft", "accelerate", "codetiming", "hydra", "omegaconf", "torchdata", "vllm")
    sys.path.insert(0, str(checkout))
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    trainer = Trainer()
    batch = responses(trainer.model)
    settings = {"epsilon": 1e-6}
    yield "advantages", audit_stage(lambda one: advantages(one)[:, 0], batch, like="grpo", settings=settings)
    ready = Batch(batch, advantages=advantages(batch))
    yield "loss", audit_stage(loss, Batch(ready, logp=ready.old_logp), like="ppo_clip")
    yield "update", audit(trainer.update, ready, vary={"micro": [2, 8]}, like="ppo_clip")
    trainer = Trainer()
    yield "advantages and update", audit(trainer.grade_and_update, responses(trainer.model))
