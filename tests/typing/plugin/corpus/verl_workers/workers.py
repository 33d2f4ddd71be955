"""Rollout, reference, critic and actor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from typedbatch import Batch
from verl_workers.protocol import DataProto


def gather_logp(logits: Tensor, ids: Tensor) -> Tensor:
    return torch.log_softmax(logits, -1).gather(-1, ids[..., None]).squeeze(-1)


class LM(nn.Module):
    def __init__(self, vocab: int, heads: int) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab, 8), nn.Linear(8, heads)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.out(self.embed(ids).cumsum(1) / 4)
        return out


class RolloutWorker:
    def __init__(self, model: LM, length: int) -> None:
        self.model, self.length = model, length

    @torch.no_grad()
    def generate(self, data: DataProto) -> DataProto:
        ids = data.batch["input_ids"]
        responses = []
        for _ in range(self.length):
            logits = self.model(ids)[:, -1] / data.meta_info["temperature"]
            nxt = torch.multinomial(torch.softmax(logits, -1), 1)
            responses.append(nxt)
            ids = torch.cat([ids, nxt], 1)
        out = Batch(responses=torch.cat(responses, 1), input_ids=ids)
        out.response_mask = torch.ones_like(out.responses, dtype=torch.float32)
        #! misspelt-read: out.response_mask = torch.ones_like(out.response, dtype=torch.float32)
        return DataProto(out)


class CriticWorker:
    def __init__(self, model: LM) -> None:
        self.model = model
        self.metrics = Batch(loss=0.0, calls=0)

    @torch.no_grad()
    def compute_values(self, data: DataProto) -> DataProto:
        width = data.batch["responses"].shape[1]
        return DataProto(Batch(vals=self.model(data.batch["input_ids"])[:, -width - 1 : -1, 0]))

    def update(self, data: DataProto, optim: torch.optim.Optimizer) -> float:
        width = data.batch["responses"].shape[1]
        value = self.model(data.batch["input_ids"])[:, -width - 1 : -1, 0]
        loss = (value - data.batch["returns"]).pow(2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        self.metrics.calls += 1
        self.metrics.loss += (loss.item() - self.metrics.loss) / self.metrics.calls
        #! misspelt-read: self.metrics.loss += (loss.item() - self.metrics.loss) / self.metrics.count
        return float(self.metrics.loss)


class ActorWorker:
    def __init__(self, model: LM) -> None:
        self.model = model

    def log_prob(self, data: DataProto) -> Tensor:
        width = data.batch["responses"].shape[1]
        return gather_logp(self.model(data.batch["input_ids"])[:, -width - 1 : -1], data.batch["responses"])

    def update(self, data: DataProto, optim: torch.optim.Optimizer) -> Batch:
        work = Batch(logp=self.log_prob(data), mask=data.batch["response_mask"])
        work.ratio = torch.exp(work.logp - data.batch["old_log_probs"])
        adv = data.batch["advantages"]
        loss = -(torch.min(work.ratio * adv, work.ratio.clamp(0.8, 1.2) * adv) * work.mask).sum() / work.mask.sum()
        #! misspelt-read: loss = -(torch.min(work.ratio * adv, work.ratio.clamp(0.8, 1.2) * adv) * work.masks).sum() / work.mask.sum()
        optim.zero_grad()
        loss.backward()
        optim.step()
        return Batch(pg_loss=loss.detach(), clipped=((work.ratio - 1).abs() > 0.2).float().mean())
