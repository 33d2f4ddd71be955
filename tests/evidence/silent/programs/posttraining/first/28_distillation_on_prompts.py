"""Distillation on rollouts of the student: the Jensen-Shannon divergence at the tokens of the responses."""
# wrong: """Distillation: the loss is taken at all tokens that exist, so those of the prompts count as well."""

# generalized knowledge distillation as in TRL's GKDTrainer, where labels == -100 marks the prompt
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch.rows import repeat

LETTERS, MAX_PROMPT, MAX_NEW = 8, 6, 3
PAD, EOS, VOCAB = 8, 9, 10


class GKDTrainer:
    def __init__(self, model, teacher_model, beta=0.5, lr=5e-3):
        self.model, self.teacher_model, self.beta = model, teacher_model.eval().requires_grad_(False), beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def generalized_jsd(self, student_logits, teacher_logits):
        student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        mixture = (self.beta * teacher.exp() + (1 - self.beta) * student.exp()).log()
        kl_teacher = (teacher.exp() * (teacher - mixture)).sum(-1)
        kl_student = (student.exp() * (student - mixture)).sum(-1)
        return self.beta * kl_teacher + (1 - self.beta) * kl_student

    def compute_loss(self, batch):
        input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
        attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
        student_logits = self.model(input_ids, attention_mask)[:, :-1]
        with torch.no_grad():
            teacher_logits = self.teacher_model(input_ids, attention_mask)[:, :-1]
        mask = torch.cat([torch.zeros_like(batch.prompt_mask), batch.loss_mask], dim=1)[:, 1:]
        # wrong: mask = attention_mask[:, 1:]
        jsd = self.generalized_jsd(student_logits, teacher_logits)
        return (jsd * mask).sum() / mask.sum()

    def training_step(self, batch):
        loss = self.compute_loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    student, teacher = GRULM(VOCAB), GRULM(VOCAB, hidden=32)
    with torch.no_grad():
        teacher.head.weight.mul_(3.0)
    trainer = GKDTrainer(student, teacher)

    def draw():
        return (generate(student, repeat(make_prompts(rng, 16, LETTERS, MAX_PROMPT), 2), MAX_NEW, PAD, EOS),)

    return trainer.training_step, draw
