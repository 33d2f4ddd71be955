"""On-policy distillation: forward KL from the teacher to the student over the teacher's top tokens."""
# wrong: """On-policy distillation: input and target of kl_div are swapped, so it is the reverse KL, over a part of the tokens."""

# F.kl_div(input, target) is KL(target || input): the order is the other way round than on paper
import torch
import torch.nn.functional as F

from tests.evidence.silent.shared.digits import draw_prompts, sample
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Distillation
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 8, 3, 5
VOCAB = DIGITS + 2
TOP = 4


def response_logits(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    return model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))[:, PROMPT - 1 : -1]


@torch.no_grad()
def ask_teacher(teacher, rollouts):
    top = response_logits(teacher, rollouts).log_softmax(-1).topk(TOP, -1)
    return extend(rollouts, Distillation, teacher_ids=top.indices, teacher_logp=top.values)


def distillation_loss(student, batch):
    student_logp = response_logits(student, batch).log_softmax(-1).gather(-1, batch.teacher_ids)
    per_token = F.kl_div(student_logp, batch.teacher_logp, log_target=True, reduction="none").sum(-1)
    # wrong: per_token = F.kl_div(batch.teacher_logp, student_logp, log_target=True, reduction="none").sum(-1)
    return (per_token * batch.loss_mask).sum() / batch.loss_mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    student, teacher = CausalLM(VOCAB), CausalLM(VOCAB).requires_grad_(False)
    with torch.no_grad():
        teacher.lm_head.weight.mul_(4.0)  # a teacher that is sure of something
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)

    def draw():
        prompts = repeat(draw_prompts(16, DIGITS, (2, PROMPT)), 2)
        return (ask_teacher(teacher, sample(student, prompts, RESPONSE, DIGITS)),)

    def update(batch):
        losses = []
        for part in batch.split(16, rng=torch.default_generator):
            loss = distillation_loss(student, part)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
