"""On-policy distillation of a teacher's top-k probabilities into a smaller student."""
# wrong: """The student's logits are not shifted: at each token it predicts the next one, and learns the teacher's of this."""
from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from typedbatch import extend, objects
from typedbatch.posttraining import Distillation, Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class DistillConfig:
    vocab_size: int = 20
    pad_token_id: int = 0
    eos_token_id: int = 1
    batch_size: int = 20
    max_prompt_length: int = 4
    max_completion_length: int = 8
    top_k: int = 6
    temperature: float = 1.0
    learning_rate: float = 4e-3
    steps_per_batch: int = 1


class RecurrentLM(nn.Module):
    def __init__(self, vocab: int, size: int) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(vocab, size), nn.LSTMCell(size, size), nn.Linear(size, vocab)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``(N, T, V)``; padding, on either side, does not change the state."""
        h = c = torch.zeros(len(ids), self.cell.hidden_size)
        logits = []
        for token, there in zip(ids.T, mask.T):
            new_h, new_c = self.cell(self.embed(token), (h, c))
            h, c = torch.where(there[:, None], new_h, h), torch.where(there[:, None], new_c, c)
            logits.append(self.head(h))
        return torch.stack(logits, 1)


def full_logits(model: RecurrentLM, batch: Rollouts) -> Tensor:
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    return model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))


class OnPolicyDistillation:
    def __init__(self, config: DistillConfig) -> None:
        self.config = config
        self.teacher = RecurrentLM(config.vocab_size, 48).requires_grad_(False)
        self.teacher.head.weight.mul_(20.0)  # a teacher that is sure of itself
        self.student = RecurrentLM(config.vocab_size, 24)
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=config.learning_rate)

    def prompts(self) -> Prompts:
        c = self.config
        mask = torch.arange(c.max_prompt_length) >= torch.randint(c.max_prompt_length, (c.batch_size, 1))
        ids = torch.randint(2, c.vocab_size, mask.shape).masked_fill(~mask, c.pad_token_id)
        return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(c.batch_size)))

    @torch.no_grad()
    def generate(self, prompts: Prompts) -> Rollouts:
        c, ids, mask = self.config, prompts.prompt_ids, prompts.prompt_mask
        alive = torch.ones(len(prompts), dtype=torch.bool)
        for _ in range(c.max_completion_length):
            probs = (self.student(ids, mask)[:, -1] / c.temperature).softmax(-1)
            token = torch.multinomial(probs, 1).squeeze(1).where(alive, c.pad_token_id)
            ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
            alive = alive & (token != c.eos_token_id)
        there = mask[:, prompts.prompt_ids.shape[1] :]
        return extend(
            prompts, Rollouts, response_ids=ids[:, prompts.prompt_ids.shape[1] :], response_mask=there, loss_mask=there
        )

    @torch.no_grad()
    def ask_teacher(self, rollouts: Rollouts) -> Distillation:
        logits = full_logits(self.teacher, rollouts)[:, rollouts.prompt_ids.shape[1] - 1 : -1]
        logp, ids = logits.log_softmax(-1).topk(self.config.top_k, dim=-1)
        return extend(rollouts, Distillation, teacher_ids=ids, teacher_logp=logp)

    def loss(self, batch: Distillation) -> Tensor:
        """KL(teacher || student) on the teacher's k tokens and one for all others."""
        start = batch.prompt_ids.shape[1]
        logits = full_logits(self.student, batch)[:, start - 1 : -1]
        # wrong: logits = full_logits(self.student, batch)[:, start:]
        student = (logits / self.config.temperature).log_softmax(-1).gather(-1, batch.teacher_ids)
        teacher = batch.teacher_logp
        rest_teacher = (1 - teacher.exp().sum(-1)).clamp(min=1e-6)
        rest_student = (1 - student.exp().sum(-1)).clamp(min=1e-6)
        kl = (teacher.exp() * (teacher - student)).sum(-1) + rest_teacher * (rest_teacher / rest_student).log()
        return (kl * batch.loss_mask).sum() / batch.loss_mask.sum()

    def update(self, batch: Distillation) -> dict[str, float]:
        for _ in range(self.config.steps_per_batch):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimizer.step()
        return {"kl": loss.item(), "grad_norm": norm.item(), "length": batch.loss_mask.sum(1).float().mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = OnPolicyDistillation(DistillConfig())
    return trainer.update, lambda: (trainer.ask_teacher(trainer.generate(trainer.prompts())),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    trainer = OnPolicyDistillation(DistillConfig())
    return {"sample": (trainer.generate, trainer.prompts())}
