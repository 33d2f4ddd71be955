"""prime-rl at 559b4477: ``GRPOAlgorithm.score_group``, and ``compute_loss`` with ``default_loss_fn`` and its shifts."""

import asyncio
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
from prime_rl.trainer.rl import loss as losses

from tests.evidence.trainers.tokens import GROUPS, VOCABULARY, Config, Learner, inputs_of, responses
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

CONFIG = Config(dppo_mask_low=0.2, dppo_mask_high=0.2, adv_tau=1.0, kl_tau=1e-3)


class Trainer(Learner):
    """A model that learns by this loss."""

    def update(self, batch: Any, micro: int = 4) -> None:
        """Make a step, in micro-batches of a size."""
        parts, count = batch.split(micro, shuffle=False), int(batch.loss_mask.sum())
        self.step(loss(self.logp(part), part, count) for part in parts)

    def logp(self, batch: Any) -> Any:
        """Return the log-probabilities of the tokens of responses."""
        ids, mask = inputs_of(batch)
        logp = losses.selective_log_softmax(self.model(ids, mask).logits, losses.shift_tensor_left(ids))
        return losses.shift_tensor_right(logp, pad_value=math.log(1 / VOCABULARY))[:, batch.prompt_ids.shape[1] :]


def loss(logp: Any, batch: Any, count: int) -> Any:
    """Return the loss over a count of tokens, of sequences without padding."""
    there, adv = batch.response_mask, batch.advantages[:, None].expand_as(logp)
    columns = logp, batch.old_logp, adv, batch.loss_mask
    logp, old, adv, mask = (column[there].split(there.sum(1).tolist()) for column in columns)
    function = losses.setup_rl_loss_fn(CONFIG)
    return losses.compute_loss(logp, old, None, adv, mask, None, None, None, function, count, 1, 1)[0]


def advantages(batch: Any) -> Any:
    """Return the advantages of groups."""
    algorithm, known = GRPOAlgorithm.__new__(GRPOAlgorithm), {"has_error": False, "agent": Config(trainable=True)}
    algorithm.length_penalty, nodes = None, [SimpleNamespace(mask=[True], token_ids=[0]) for _ in batch]
    traces = [Config(known, reward=float(row.rewards), nodes=[node]) for row, node in zip(batch, nodes, strict=True)]
    for first in range(0, len(traces), len(traces) // GROUPS):
        asyncio.run(algorithm.score_group([Config(traces=traces[first : first + len(traces) // GROUPS])]))
    return torch.tensor([node.advantages[0] for node in nodes])


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the reports of the advantages, of the loss and of the update."""
    trainer = Trainer()
    batch = responses(trainer.model)
    yield "advantages", audit_stage(advantages, batch, like="grpo")
    ready, count = Batch(batch, logp=batch.old_logp), int(batch.loss_mask.sum())
    yield "loss", audit_stage(lambda one: loss(one.logp, one, count), ready, like="ppo_clip")
    yield "update", audit(trainer.update, batch, vary={"micro": [4, 16]})
