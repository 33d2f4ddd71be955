"""open-instruct at e6c3044a: the functions of ``grpo_utils.py`` in the order in which ``grpo_fast.py`` calls them."""

from collections.abc import Iterator
from typing import Any

import torch
from open_instruct import grpo_utils

from tests.evidence.trainers.tokens import Config, Learner, inputs_of, responses
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

CONFIG = Config(
    loss_fn="dapo", clip_lower=0.2, clip_higher=0.272, use_rho_correction=True, rho_clamp_lower_bound=0.0,
    rho_clamp_upper_bound=2.0, rho_mask_lower_bound=0.0, rho_mask_upper_bound=0.0, rho_mask_sequence_level=False,
    rho_mask_tv_divergence=False,
)  # fmt: skip


class Trainer(Learner):
    """A model that learns by this loss."""

    def update(self, batch: Any, micro: int = 4) -> None:
        """Make a step, in micro-batches of a size."""
        parts, count = batch.split(micro, shuffle=False), float(batch.loss_mask.sum())
        self.step(loss(self.logp(part), part, count) for part in parts)

    def logp(self, batch: Any) -> Any:
        """Return the log-probabilities of the tokens of responses."""
        ids, mask = inputs_of(batch)
        logp, _ = grpo_utils.forward_for_logprobs(self.model, ids, mask, mask.cumsum(1), 0, temperature=1.0)
        return logp[:, batch.prompt_ids.shape[1] - 1 :]


def loss(logp: Any, batch: Any, count: float | None = None) -> Any:
    """Return the loss over a count of tokens, or that of these."""
    mask, adv, old = batch.loss_mask, batch.advantages[:, None].expand_as(logp), batch.old_logp
    new, old, sampled = (grpo_utils.mask_logprobs(one, mask) for one in (logp, old, batch.get("rollout_logp", old)))
    ratio = torch.exp(new - grpo_utils.resolve_old_logprob([old], 0, 0, 2, False, sampled, new))
    weights = grpo_utils.compute_rho_correction(old, sampled, mask, adv, CONFIG).weights
    per_token, _, _ = grpo_utils.compute_grpo_loss(new, ratio, adv, None, CONFIG, weights)
    return grpo_utils.masked_mean(per_token, mask, None, count)


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the reports of the loss and of the update."""
    trainer, settings = Trainer(), {"clip": (CONFIG.clip_lower, CONFIG.clip_higher)}
    batch = responses(trainer.model)
    ready = Batch(batch, logp=batch.old_logp)
    yield "loss", audit_stage(lambda one: loss(one.logp, one), ready, like="ppo_clip", settings=settings)
    yield "update", audit(trainer.update, Batch(batch, rollout_logp=batch.old_logp), vary={"micro": [4, 16]})
