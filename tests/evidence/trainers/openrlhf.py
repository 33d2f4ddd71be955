"""OpenRLHF at 3c3be623: ``RemoteExperienceMaker``'s advantages, three losses, and the update of ``ActorPPOTrainer``."""

from collections.abc import Iterator
from typing import Any

import torch
from openrlhf.models import Actor, DPOLoss, PolicyLoss, ValueLoss
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.utils.loss_utils import iter_grad_accum_global_norm

from tests.evidence.trainers.tokens import SIZE, Config, Learner, inputs_of, responses
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

ADVANTAGE, ROLLOUT = Config(estimator="group_norm", gamma=1.0), Config(n_samples_per_prompt=SIZE)
ARGS = Config(algo=Config(advantage=ADVANTAGE), reward=Config(clip_range=None), rollout=ROLLOUT)
POLICY, VALUE, DPO = PolicyLoss(), ValueLoss(clip_eps=0.2), DPOLoss(beta=0.1)
OF_DPO = ("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp")


class Trainer(Learner):
    """A model with OpenRLHF's actor."""

    def update(self, batch: Any, micro: int = 4) -> None:
        """Make a step, in micro-batches of a size, whose losses DeepSpeed divides by their number."""
        parts = [*batch.split(micro, shuffle=False)]
        normed = iter_grad_accum_global_norm(parts, None, len(parts), lambda part: part.loss_mask)
        self.step(self.loss(part, info) / len(parts) for part, info in normed)

    def loss(self, batch: Any, info: dict[str, Any]) -> Any:
        """Return the loss."""
        actor, (ids, mask) = Actor(self.model), inputs_of(batch)
        actor.packing_samples = False
        logp = actor(ids, batch.loss_mask, attention_mask=mask)
        return POLICY(logp, batch.old_logp, batch.advantages, batch.loss_mask, **info)[0]


def advantages(batch: Any) -> Any:
    """Return the advantages of each token, which are those of groups with a standard deviation."""
    maker = RemoteExperienceMaker(None, None, None, None, Config(value=0.0), Config(args=ARGS), None)
    read = {"rewards": batch.rewards, "action_mask": batch.response_mask, "kl": torch.zeros_like(batch.old_logp)}
    return maker.compute_advantages_and_returns([Experience(index=[*range(len(batch))], **read)])[0].advantages


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages, of two losses and of the update."""
    trainer = Trainer()
    batch = responses(trainer.model)
    yield "advantages", audit_stage(lambda one: advantages(one)[:, 0], batch, like="grpo", settings={"epsilon": 1e-9})
    logps, settings = Batch({name: torch.randn(8) for name in OF_DPO}), {"beta": 0.1}
    yield "DPOLoss", audit_stage(lambda one: DPO(*(one[name] for name in OF_DPO)), logps, like="dpo", settings=settings)
    values = Batch({name: torch.randn(8, 6) for name in ("v_s", "old", "returns")}, mask=torch.ones(8, 6))
    yield "ValueLoss", audit_stage(lambda one: VALUE(one.v_s, one.old, one.returns, one.mask), values, like="value")
    ready = Batch(batch, advantages=advantages(batch))
    yield "update", audit(trainer.update, ready, vary={"micro": [4, 8]}, like="ppo_clip")
