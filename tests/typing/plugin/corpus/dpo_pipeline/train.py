"""The stages: reference log-probabilities, loss, report."""

from __future__ import annotations

import torch
from torch import Tensor

from dpo_pipeline.model import Bigram, answer_logp
from dpo_pipeline.records import HasMargins, Pairs, ScoredPairs
from typedbatch import Batch, extend


@torch.no_grad()
def add_reference(pairs: Pairs, reference: Bigram) -> ScoredPairs:
    chosen = answer_logp(reference, pairs.chosen_ids, pairs.chosen_mask)
    rejected = answer_logp(reference, pairs.rejected_ids, pairs.rejected_mask)
    return extend(pairs, ScoredPairs, ref_chosen_logp=chosen, ref_rejected_logp=rejected)
    #! misspelt-keyword: return extend(pairs, ScoredPairs, ref_chosen_logps=chosen, ref_rejected_logp=rejected)


def dpo_loss(batch: ScoredPairs, policy: Bigram, beta: float) -> tuple[Tensor, Batch]:
    out = Batch(
        chosen_logp=answer_logp(policy, batch.chosen_ids, batch.chosen_mask),
        rejected_logp=answer_logp(policy, batch.rejected_ids, batch.rejected_mask),
    )
    out.chosen_reward = beta * (out.chosen_logp - batch.ref_chosen_logp)
    #! misspelt-read: out.chosen_reward = beta * (out.chosen_logps - batch.ref_chosen_logp)
    out.rejected_reward = beta * (out.rejected_logp - batch.ref_rejected_logp)
    #! misspelt-read: out.rejected_reward = beta * (out.rejected_logp - batch.ref_reject_logp)
    margin = out.chosen_reward - out.rejected_reward
    accuracy = report(out)
    return -torch.nn.functional.logsigmoid(margin).mean(), Batch(accuracy=accuracy, margin=margin.mean().detach())


def report(batch: HasMargins) -> float:
    return float((batch.chosen_reward > batch.rejected_reward).float().mean())


def run(policy: Bigram, pairs: Pairs, reference: Bigram, epochs: int) -> Batch:
    optim = torch.optim.Adam(policy.parameters(), lr=5e-2)
    scored = add_reference(pairs, reference)
    #! wrong-stage: scored = pairs
    stats = Batch()
    for _ in range(epochs):
        for minibatch in scored.split(16):
            loss, stats = dpo_loss(minibatch, policy, beta=0.5)
            optim.zero_grad()
            loss.backward()
            optim.step()
    return stats
