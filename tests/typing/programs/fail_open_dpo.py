"""DPO: preference pairs, a reference model, and statistics in an open batch."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, extend, validate
from typedbatch.posttraining import Pairs


class WithMargins(BatchRecord):
    chosen: Tensor
    rejected: Tensor
    ref_chosen: Tensor
    ref_rejected: Tensor


@dataclass
class Trainer:
    model: nn.Embedding
    reference: nn.Embedding
    beta: float = 0.1

    def logp(self, model: nn.Embedding, ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(ids)
        token = logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)
        return (token * mask).sum(-1)

    def margins(self, pairs: Pairs) -> WithMargins:
        with torch.no_grad():
            ref_chosen = self.logp(self.reference, pairs.chosen_ids, pairs.chosen_mask)
            ref_rejected = self.logp(self.reference, pairs.rejected_ids, pairs.rejected_mask)
        return WithMargins(
            chosen=self.logp(self.model, pairs.chosen_ids, pairs.chosen_mask),
            rejected=self.logp(self.model, pairs.rejected_ids, pairs.rejected_mask),
            ref_chosen=ref_chosen,
            ref_rejected=ref_rejected,
        )

    def loss(self, batch: WithMargins) -> Tensor:
        difference = (batch.chosen - batch.ref_chosen) - (batch.rejected - batch.ref_rejected)
        return -nn.functional.logsigmoid(self.beta * difference).mean()

    def numpy_margins(self, margins: WithMargins) -> WithMargins:
        chosen = margins.chosen.detach().numpy()
        return WithMargins(chosen=chosen, rejected=margins.rejected, ref_chosen=margins.ref_chosen, ref_rejected=margins.ref_rejected)  # E: user-tensor-from-numpy [not: ty, zuban]

    def raw(self, data: Batch) -> Tensor:
        return self.loss(self.margins(data))  # E: user-unchecked


def load(n: int) -> Batch:
    data = Batch()
    data.prompt_ids = torch.randint(0, 9, (n, 3))
    data.prompt_mask = torch.ones(n, 3, dtype=torch.bool)
    for name, length in (("chosen", 4), ("rejected", 5)):
        data[f"{name}_ids"] = torch.randint(0, 9, (n, length))
        data[f"{name}_mask"] = torch.ones(n, length, dtype=torch.bool)
    data.source = ["web"] * n
    return data


def accuracy(batch: WithMargins) -> Batch:
    stats = Batch(correct=(batch.chosen > batch.rejected).float().detach())
    stats.acc = stats.correct.mean().item()
    stats.margin = Batch(mean=(batch.chosen - batch.rejected).mean().item())
    stats.margin.n = len(batch)
    return stats


class Annotated(Pairs):
    annotator: Tensor


def annotate(pairs: Pairs) -> Annotated:
    return extend(pairs, Annotated, annotator=torch.zeros(len(pairs), dtype=torch.int64))


def main() -> None:
    trainer = Trainer(nn.Embedding(9, 9), nn.Embedding(9, 9))
    data = load(12)
    pairs = annotate(validate(data, Pairs))
    for mb in pairs.split(4):
        margins = trainer.margins(mb)
        loss = trainer.loss(margins)
        (grad,) = torch.autograd.grad(loss, [trainer.model.weight])
        trainer.model.weight.data.sub_(0.5 * grad)
        stats = accuracy(margins)
        print(round(loss.item(), 3), stats.acc, stats.margin.n, mb.annotator.sum().item())
    print(data.source[0], len(data[:3].source))


if __name__ == "__main__":
    main()
