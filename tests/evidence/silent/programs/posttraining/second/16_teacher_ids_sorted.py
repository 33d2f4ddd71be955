"""Distillation: the teacher's top K tokens are stored by id, with their log-probs in the same order."""
# wrong: """Distillation: the teacher's top K ids are sorted to be stored, its log-probs are left in order of likelihood."""
import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate
from tests.evidence.silent.shared.models import Window
from typedbatch import extend
from typedbatch.posttraining import Distillation

TOP = 4


def response_logits(model, batch):
    """(N, R, V): what is said of each token of the response stands one before it."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    return model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]


@torch.no_grad()
def label(teacher, rollouts):
    logp, ids = response_logits(teacher, rollouts).log_softmax(-1).topk(TOP, dim=-1)
    ids, order = ids.sort(dim=-1)  # sorted ids are stored in less
    logp = logp.gather(-1, order)
    # wrong: without this line
    return extend(rollouts, Distillation, teacher_ids=ids, teacher_logp=logp)


class Distiller:
    def __init__(self, student, lr=5e-3):
        self.student, self.optimizer = student, torch.optim.Adam(student.parameters(), lr=lr)

    def loss(self, batch):
        """Forward KL over the teacher's top K, and the rest as one more class."""
        logp = response_logits(self.student, batch).log_softmax(-1).gather(-1, batch.teacher_ids)
        p = batch.teacher_logp.exp()
        rest_teacher = (1 - p.sum(-1)).clamp(min=1e-6)
        rest_student = (1 - logp.exp().sum(-1)).clamp(min=1e-6)
        kl = (p * (batch.teacher_logp - logp)).sum(-1) + rest_teacher * (rest_teacher.log() - rest_student.log())
        return kl[batch.loss_mask].mean()

    def update(self, labelled):
        total = 0.0
        for batch in labelled.split(16, rng=torch.default_generator):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(batch)
        return total / len(labelled)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    teacher, distiller = Window(VOCAB).requires_grad_(False), Distiller(Window(VOCAB))
    teacher.net[-1].weight.mul_(8)  # has learned something

    def draw():
        return (label(teacher, generate(distiller.student, draw_prompts(48))),)

    return distiller.update, draw
