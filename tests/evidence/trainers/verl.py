"""verl at b178a3cd: ``compute_grpo_outcome_advantage``, and ``DataParallelPPOActor.update_policy``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed
from verl import DataProto
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.workers.actor.dp_actor import DataParallelPPOActor

from tests.evidence.trainers.tokens import Config, Learner, inputs_of, responses
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

CONFIG = Config(
    use_torch_compile=False, entropy_from_logits_with_chunking=False, ulysses_sequence_parallel_size=1,
    fsdp_config={"dtype": "float32"}, policy_loss={"loss_mode": "vanilla"}, loss_agg_mode="token-mean",
    ppo_mini_batch_size=8, ppo_epochs=1, use_dynamic_bsz=False, grad_clip=1.0, entropy_coeff=0.0, use_kl_loss=False,
    calculate_entropy=False, clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, global_batch_info={},
)  # fmt: skip


class Trainer(Learner):
    """A model with verl's actor."""

    def update(self, batch: Any, micro: int = 2) -> None:
        """Update the policy, in micro-batches of a size."""
        ids, mask = inputs_of(batch)
        tensors = {
            "input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0),
            "responses": batch.response_ids, "response_mask": batch.loss_mask, "old_log_probs": batch.old_logp,
            "advantages": batch.advantages,
        }  # fmt: skip
        actor = DataParallelPPOActor(Config(CONFIG, ppo_micro_batch_size_per_gpu=micro), self.model, self.optimizer)
        actor.update_policy(DataProto.from_dict(tensors=tensors, meta_info={"temperature": 1.0}))


def advantages(batch: Any) -> Any:
    """Return GRPO's advantages of each token, for the reward at the last one."""
    last = batch.response_mask.sum(1, keepdim=True) - 1
    per_token = torch.zeros_like(batch.old_logp).scatter(1, last, batch.rewards[:, None])
    return compute_grpo_outcome_advantage(per_token, batch.loss_mask.float(), batch.uid)[0]


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages and of the update."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    trainer = Trainer()
    batch = responses(trainer.model)
    yield "advantages", audit_stage(lambda one: advantages(one)[:, 0], batch, like="grpo", settings={"epsilon": 1e-6})
    ready = Batch(batch, advantages=advantages(batch))
    yield "update", audit(trainer.update, ready, vary={"micro": [2, 8]}, like="ppo_clip")
