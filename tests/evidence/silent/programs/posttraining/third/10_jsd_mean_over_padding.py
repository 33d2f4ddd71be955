"""On-policy distillation with the generalized Jensen-Shannon divergence, over the tokens of the student."""
# wrong: """Distillation: the divergence is a mean over the rectangle, so the model also learns what the teacher says after padding."""

# Source: TRL's generalized_jsd_loss needs `jsd[labels != -100]` before it reduces; without it batchmean has the padding
import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, sample
from tests.evidence.silent.shared.models import Decoder
from typedbatch.rows import repeat

RESPONSE = 6
BETA = 0.5


def response_logits(model, rollouts):
    """The logits that predict the tokens of the responses (N, R, V)."""
    ids = torch.cat([rollouts.prompt_ids, rollouts.response_ids], 1)
    mask = torch.cat([rollouts.prompt_mask, rollouts.response_mask], 1)
    return model(ids, mask)[:, rollouts.prompt_ids.shape[1] - 1 : -1]


def generalized_jsd(student_logits, teacher_logits, mask):
    student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
    mixture = torch.logsumexp(torch.stack([student + math.log(1 - BETA), teacher + math.log(BETA)]), 0)
    kl_teacher = F.kl_div(mixture, teacher, reduction="none", log_target=True).sum(-1)
    kl_student = F.kl_div(mixture, student, reduction="none", log_target=True).sum(-1)
    jsd = BETA * kl_teacher + (1 - BETA) * kl_student
    return (jsd * mask).sum() / mask.sum()
    # wrong: return jsd.mean()


class GKDTrainer:
    def __init__(self, student, teacher):
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)

    def rollout(self):
        return (sample(self.student, repeat(draw_prompts(16), 2), RESPONSE),)

    def update(self, rollouts):
        for part in rollouts.split(16, rng=torch.default_generator):
            with torch.no_grad():
                teacher_logits = response_logits(self.teacher, part)
            loss = generalized_jsd(response_logits(self.student, part), teacher_logits, part.loss_mask)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimizer.step()
        return loss.item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    teacher = Decoder(VOCAB, width=32)
    with torch.no_grad():
        teacher.lm_head.weight.mul_(3.0)  # a teacher that knows what it wants
    trainer = GKDTrainer(Decoder(VOCAB), teacher)
    return trainer.update, trainer.rollout
